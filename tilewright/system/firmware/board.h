/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOARD_H
#define BOARD_H

#define BOARD_READS_CONSTANTS /* the machine reads them where they are */
#define BOARD_MARK(is_called) board_mark(is_called)

/* Switches the light that says that the network runs. */
void board_mark(int is_called);

/* Says on the serial line that the program has ended: the byte 4, then its code. */
void board_exit(int code);

#endif
