/* SPDX-License-Identifier: Apache-2.0 */
/* The first instructions: a stack, memory that begins as zero, main, and its code to whoever waits for it. */
    .section .text.start, "ax"
    .globl _start
_start:
    la sp, stack_end
    la t0, zeroed
    la t1, zeroed_end
1:  bgeu t0, t1, 2f
    sw zero, 0(t0)
    addi t0, t0, 4
    j 1b
2:  call main
    call board_exit
3:  j 3b
