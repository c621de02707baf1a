/* The board of `tilewright bundle --simulate`: the hardware, simulated in this process. */
#include "platform.h"

uint32_t board_read(void *context, uint32_t offset);
void board_write(void *context, uint32_t offset, uint32_t word);
void board_pause(void *context);
uint64_t board_bus_address(void *context, const void *memory);

const tilewright_platform *board_platform(void)
{
    static const tilewright_platform platform = {
        NULL, NULL, board_read, board_write, board_bus_address, NULL, NULL, board_pause,
    };
    return &platform;
}
