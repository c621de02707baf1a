/* SPDX-License-Identifier: Apache-2.0 */
#include "tilewright_host.h"

#include <stdint.h>

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF /* a product is rounded before it is added, as on the computer that made the test vector */
#endif

#define FRACTION_BITS 23
#define BIAS 127
#define ONE_BIT ((uint32_t)1 << FRACTION_BITS)
#define INFINITE ((uint32_t)255 << FRACTION_BITS)

/* A float32 and its bits (IEEE 754). */
typedef union {
    float real;
    uint32_t bits;
} word;

float tilewright_clip(float x, float low, float high)
{
    return x < low ? low : x > high ? high : x;
}

/* The root of `square`, below 2^50, bit by bit: the largest number whose square is not larger. */
static uint32_t root_of(uint64_t square)
{
    uint64_t root = 0;
    uint64_t bit;
    for (bit = (uint64_t)1 << 24; bit > 0U; bit >>= 1) {
        uint64_t tried = root | bit;
        if (tried * tried <= square) {
            root = tried;
        }
    }
    return (uint32_t)root;
}

float tilewright_sqrt(float x)
{
    word found;
    uint64_t fraction;
    int32_t exponent;
    found.real = x;
    if (!(x > 0.0F)) {
        return x == 0.0F ? x : 0.0F;
    }
    if (found.bits >= INFINITE) {
        return x;
    }
    exponent = (int32_t)(found.bits >> FRACTION_BITS);
    fraction = found.bits & (ONE_BIT - 1U);
    if (exponent == 0) {
        for (exponent = 1; fraction < ONE_BIT; exponent--) {
            fraction <<= 1;
        }
    }
    fraction = (fraction & (ONE_BIT - 1U)) | ONE_BIT;
    exponent -= BIAS + FRACTION_BITS; /* x = fraction * 2^exponent */
    if (exponent % 2 == 0) {
        fraction <<= 1;
        exponent--;
    }
    /* x = (fraction * 2^25) * 2^(exponent - 25): a root with 25 bits, of which the last is rounded; it is no tie, since
     * the square of an odd number is odd. */
    found.bits = (root_of(fraction << 25) + 1U) >> 1;
    exponent = (exponent - 25) / 2 + 1 + FRACTION_BITS + BIAS;
    if (found.bits >= ONE_BIT << 1) {
        found.bits >>= 1;
        exponent++;
    }
    found.bits = ((uint32_t)exponent << FRACTION_BITS) | (found.bits & (ONE_BIT - 1U));
    return found.real;
}

/* 2^n, for n from -126 to 127. */
static float power_of_two(int32_t n)
{
    word found;
    found.bits = (uint32_t)(n + BIAS) << FRACTION_BITS;
    return found.real;
}

float tilewright_exp(float x)
{
    float rest, sum;
    int32_t n;
    word infinite;
    infinite.bits = INFINITE;
    if (x > 88.7228394F) {
        return infinite.real;
    }
    if (!(x > -103.972084F)) {
        return x != x ? x : 0.0F;
    }
    /* x = n ln 2 + rest, with ln 2 in two parts, then a polynomial of rest (Cody and Waite; Cephes, expf). */
    n = (int32_t)(x * 1.44269504F + (x < 0.0F ? -0.5F : 0.5F));
    rest = x - (float)n * 0.693359375F;
    rest = rest + (float)n * 2.12194440e-4F;
    sum = 1.98756915e-4F;
    sum = sum * rest + 1.39819995e-3F;
    sum = sum * rest + 8.33345191e-3F;
    sum = sum * rest + 4.16657959e-2F;
    sum = sum * rest + 1.66666655e-1F;
    sum = sum * rest + 0.5F;
    sum = sum * (rest * rest) + rest + 1.0F;
    if (n > 127) {
        return sum * power_of_two(127) * power_of_two(n - 127);
    }
    if (n < -126) {
        return sum * power_of_two(-126) * power_of_two(n + 126);
    }
    return sum * power_of_two(n);
}

float tilewright_tanh(float x)
{
    float size = x < 0.0F ? -x : x, square = x * x, power, found;
    if (size < 0.3F) { /* its series, since 1 - exp(-2 x) has few digits there */
        found = -8.86323552e-3F;
        found = found * square + 2.18694885e-2F;
        found = found * square - 5.39682540e-2F;
        found = found * square + 1.33333333e-1F;
        found = found * square - 3.33333333e-1F;
        return x + x * square * found;
    }
    power = tilewright_exp(-2.0F * size);
    found = (1.0F - power) / (1.0F + power);
    return x < 0.0F ? -found : found;
}

/* Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26. */
float tilewright_erf(float x)
{
    float size = x < 0.0F ? -x : x;
    float t = 1.0F / (1.0F + 0.3275911F * size), sum, found;
    sum = 1.061405429F;
    sum = sum * t - 1.453152027F;
    sum = sum * t + 1.421413741F;
    sum = sum * t - 0.284496736F;
    sum = sum * t + 0.254829592F;
    found = 1.0F - sum * t * tilewright_exp(-size * size);
    return x < 0.0F ? -found : found;
}
