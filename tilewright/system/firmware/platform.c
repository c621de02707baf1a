/* SPDX-License-Identifier: Apache-2.0 */
/* The system's processor and machine see the same memory, and there is no cache of data between. */
#include "platform.h"

extern uint8_t rest[], rest_end[];

const tilewright_platform *board_platform(void)
{
    static tilewright_platform platform;
    platform.registers = (volatile uint32_t *)(uintptr_t)BOARD_NPU;
    return &platform;
}

void *board_memory(uint64_t bytes)
{
    static uintptr_t used;
    uintptr_t pages = (uintptr_t)((bytes + TILEWRIGHT_REGION_ALIGNMENT - 1U) / TILEWRIGHT_REGION_ALIGNMENT);
    uintptr_t left = (uintptr_t)rest_end - (uintptr_t)rest - used;
    if (bytes > left || pages * TILEWRIGHT_REGION_ALIGNMENT > left) {
        return NULL;
    }
    used += pages * TILEWRIGHT_REGION_ALIGNMENT;
    return rest + used - pages * TILEWRIGHT_REGION_ALIGNMENT;
}
