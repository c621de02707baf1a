/* SPDX-License-Identifier: Apache-2.0 */
/* The serial line of LiteX, and as much of printf as main.c needs. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "board.h"
#include "stdio.h"

#define END_OF_TRANSMISSION 4

static volatile uint32_t *const serial = (volatile uint32_t *)(uintptr_t)BOARD_SERIAL; /* rxtx, txfull, … */
static volatile uint32_t *const lights = (volatile uint32_t *)(uintptr_t)BOARD_LIGHTS;

static void put(char letter)
{
    while (serial[1] != 0U) {
    }
    serial[0] = (uint8_t)letter;
}

static void put_text(const char *text)
{
    while (*text != '\0') {
        put(*text++);
    }
}

static void put_number(unsigned long number)
{
    char digits[3 * sizeof number];
    size_t count = 0;
    do {
        digits[count++] = (char)('0' + number % 10U);
        number /= 10U;
    } while (number != 0U);
    while (count > 0U) {
        put(digits[--count]);
    }
}

int printf(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    for (; *format != '\0'; format++) {
        if (*format != '%') {
            put(*format);
        } else if (*++format == 's') {
            put_text(va_arg(values, const char *));
        } else if (*format == 'd') {
            int number = va_arg(values, int);
            if (number < 0) {
                put('-');
            }
            put_number(number < 0 ? 0UL - (unsigned long)number : (unsigned long)number);
        } else if (*format == 'l') {
            format++;
            put_number(va_arg(values, unsigned long));
        } else {
            put(*format);
        }
    }
    va_end(values);
    return 0;
}

void board_mark(int is_called)
{
    *lights = (uint32_t)is_called;
}

void board_exit(int code)
{
    put(END_OF_TRANSMISSION);
    put((char)code);
}
