/* SPDX-License-Identifier: Apache-2.0 */
/* What a board must give to main.c: how the machine is reached, and memory that it can reach. */
#ifndef PLATFORM_H
#define PLATFORM_H

#include "tilewright.h"

#ifdef __cplusplus
extern "C" {
#endif

const tilewright_platform *board_platform(void);

/* Memory on the machine's bus, at a multiple of TILEWRIGHT_REGION_ALIGNMENT; NULL if there is not so much left. */
void *board_memory(uint64_t bytes);

#ifdef __cplusplus
}
#endif

#endif
