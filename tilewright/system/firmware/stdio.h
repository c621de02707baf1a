/* SPDX-License-Identifier: Apache-2.0 */
/* What main.c needs of the C library, on a serial line. */
#ifndef BOARD_STDIO_H
#define BOARD_STDIO_H

/* Takes %s, %d, %lu and %%. */
int printf(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
