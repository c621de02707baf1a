/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of float32 for nodes of a network that the processor computes: C99 alone, without a mathematical library. */
#ifndef TILEWRIGHT_HOST_H
#define TILEWRIGHT_HOST_H

#ifdef __cplusplus
extern "C" {
#endif

/* The nearest float32 to the root; 0 for what is negative or NaN. */
float tilewright_sqrt(float x);

/* These differ from the exact value by at most 3e-7 of it; that of erf, by at most 6e-7. Too large a result is infinite. */
float tilewright_exp(float x);
float tilewright_tanh(float x);
float tilewright_erf(float x);

float tilewright_clip(float x, float low, float high);

#ifdef __cplusplus
}
#endif

#endif
