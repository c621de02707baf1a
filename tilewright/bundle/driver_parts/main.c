/* SPDX-License-Identifier: Apache-2.0 */
/* Runs ${name} once on the inputs of test_vector.c: programs of the machine, and what the processor computes between. */
#include <stdio.h>

#include "${name}.h"
#include "platform.h"
#include "test_vector.h"

#ifndef MOST_POLLS
#define MOST_POLLS 100000000U
#endif

#ifndef BOARD_MARK
#define BOARD_MARK(is_called) ((void)0) /* before and after the call that runs the network: for a pin, or a clock */
#endif

static int failed(const char *what, tilewright_status status)
{
    printf("%s: %s\n", what, tilewright_status_name(status));
    return 1;
}

/* The programs, their constants where the machine can read them; NULL if the board has not so much memory. */
static const tilewright_program *const *placed_programs(void)
{
#ifdef BOARD_READS_CONSTANTS
    return ${name}_programs;
#else
    static tilewright_program placed[${NAME}_PROGRAMS];
    static const tilewright_program *found[${NAME}_PROGRAMS];
    size_t number;
    for (number = 0; number < ${NAME}_PROGRAMS; number++) {
        void *constants = board_memory(tilewright_constant_bytes(${name}_programs[number]));
        if (constants == NULL) {
            return NULL;
        }
        tilewright_place(${name}_programs[number], constants, &placed[number]);
        found[number] = &placed[number];
    }
    return found;
#endif
}

int main(void)
{
    static tilewright_device device;
    const tilewright_program *const *programs = placed_programs();
    void *arena = board_memory(${NAME}_ARENA_BYTES);
    unsigned long different;
    tilewright_status status;
    if (programs == NULL || arena == NULL) {
        printf("the board has not enough memory\n");
        return 1;
    }
    status = tilewright_open(&device, board_platform());
    if (status != TILEWRIGHT_OK) {
        return failed("open", status);
    }
    test_vector_set(arena);
    BOARD_MARK(1);
    status = ${name}_infer(&device, programs, arena, MOST_POLLS);
    BOARD_MARK(0);
    if (status == TILEWRIGHT_FAULT) {
        tilewright_fault fault;
        (void)tilewright_read_fault(&device, &fault);
        printf("fault %lu in layer %s, instruction %lu: %s\n", (unsigned long)fault.code, fault.layer,
               (unsigned long)fault.instruction, fault.about);
        return 1;
    }
    if (status != TILEWRIGHT_OK) {
        return failed("run", status);
    }
    different = test_vector_different(arena);
    test_vector_say(arena);
    printf("${name}: %lu of %lu values differ\n", different, (unsigned long)TEST_VECTOR_VALUES);
    return different != 0U;
}
