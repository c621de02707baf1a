/* SPDX-License-Identifier: Apache-2.0 */
/* A board whose processor and machine see the same memory, without a cache between. Change what yours does otherwise. */
#include "platform.h"

#ifndef BOARD_REGISTERS
#error "say where the machine's registers are: -DBOARD_REGISTERS=0x…"
#endif

#ifndef BOARD_MEMORY_BYTES
#define BOARD_MEMORY_BYTES (1U << 20)
#endif

static uint8_t memory[BOARD_MEMORY_BYTES + TILEWRIGHT_REGION_ALIGNMENT];
static uint64_t used;

const tilewright_platform *board_platform(void)
{
    static tilewright_platform platform;
    platform.registers = (volatile uint32_t *)(uintptr_t)BOARD_REGISTERS;
    return &platform;
}

void *board_memory(uint64_t bytes)
{
    uint64_t first = (uint64_t)(uintptr_t)memory;
    uint64_t start = (TILEWRIGHT_REGION_ALIGNMENT - first % TILEWRIGHT_REGION_ALIGNMENT) % TILEWRIGHT_REGION_ALIGNMENT;
    uint64_t pages = (bytes + TILEWRIGHT_REGION_ALIGNMENT - 1U) / TILEWRIGHT_REGION_ALIGNMENT;
    uint8_t *found = memory + start + used;
    if (bytes > BOARD_MEMORY_BYTES || used + pages * TILEWRIGHT_REGION_ALIGNMENT > BOARD_MEMORY_BYTES) {
        return NULL;
    }
    used += pages * TILEWRIGHT_REGION_ALIGNMENT;
    return found;
}
