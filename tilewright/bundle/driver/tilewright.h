/* SPDX-License-Identifier: Apache-2.0 */
/* The driver of a Tilewright machine: C99, no heap, no operating system, nothing kept outside of what is passed in.
 *
 * A device goes through these states; a call out of order is answered with TILEWRIGHT_STATE and changes nothing:
 *
 *   closed --tilewright_open--> open --tilewright_load--> loaded --tilewright_start--> running --tilewright_poll--> loaded
 *                                                                                   running --tilewright_stop--> loaded
 *   open, loaded, running --tilewright_reset--> open
 *
 * Several machines: one tilewright_device for each. Two calls for one device must not run at the same time.
 */
#ifndef TILEWRIGHT_H
#define TILEWRIGHT_H

#include <stddef.h>
#include <stdint.h>

#include "tilewright_registers.h"

#if defined(__BYTE_ORDER__) && defined(__ORDER_LITTLE_ENDIAN__)
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "what lies in DRAM is little endian, and this processor is not: it would have to swap bytes, which nobody does here"
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    TILEWRIGHT_OK = 0,
    TILEWRIGHT_NO_MACHINE,    /* the first register does not hold the sign of a Tilewright machine */
    TILEWRIGHT_OTHER_MACHINE, /* the program is for hardware with another hash; nothing was written */
    TILEWRIGHT_ALIGNMENT,     /* a region does not begin at a multiple of TILEWRIGHT_REGION_ALIGNMENT on the bus */
    TILEWRIGHT_STATE,         /* the call does not fit the device's state: see tilewright_state_name */
    TILEWRIGHT_RUNNING,       /* the machine is still busy */
    TILEWRIGHT_FAULT,         /* the machine stopped before the end: see tilewright_read_fault */
    TILEWRIGHT_TIME,          /* it was still busy after as many polls as were allowed */
    TILEWRIGHT_BUS            /* the bus still owes an answer to an earlier run: nothing was started */
} tilewright_status;

typedef enum { TILEWRIGHT_CLOSED = 0, TILEWRIGHT_OPEN, TILEWRIGHT_LOADED, TILEWRIGHT_BUSY } tilewright_state;

/* How the processor reaches the machine. A function that is NULL has nothing to do. */
typedef struct {
    volatile uint32_t *registers; /* where they are, if `read` and `write` are NULL */
    void *context;                /* is passed to every function */
    uint32_t (*read)(void *context, uint32_t offset);
    void (*write)(void *context, uint32_t offset, uint32_t word);
    uint64_t (*bus_address)(void *context, const void *memory); /* NULL: the pointer's value */
    void (*clean)(void *context, const void *memory, size_t bytes);   /* caches: what was written can be read by others */
    void (*invalidate)(void *context, void *memory, size_t bytes);    /* what others wrote can be read */
    void (*pause)(void *context); /* between two polls: sleeps until the interrupt, or for a while */
} tilewright_platform;

/* A program: what stays as it is, and where its regions lie in the arena that is given to each device. */
typedef struct {
    const char *name;
    uint32_t isa_hash;
    const uint8_t *text;    /* instructions */
    const uint8_t *weights;
    uint64_t bytes[TILEWRIGHT_REGIONS];
    uint64_t place[TILEWRIGHT_REGIONS]; /* in the arena; not of text and weights */
    uint64_t arena_bytes;
    const char *const *layers;          /* their names, */
    const uint32_t *layer_ends;         /* and the first instruction after each: to name a layer at fault */
    uint32_t layer_count;
} tilewright_program;

typedef struct {
    const tilewright_platform *platform;
    const tilewright_program *program;
    uint8_t *arena;
    tilewright_state state;
} tilewright_device;

typedef struct {
    uint32_t code; /* one of TILEWRIGHT_FAULT_… */
    uint32_t instruction;
    int64_t address;
    const char *about;
    const char *layer; /* "" where there is none */
} tilewright_fault;

/* Looks for the machine. Device: in any state but running. */
tilewright_status tilewright_open(tilewright_device *device, const tilewright_platform *platform);

/* Places a program, after its hash is compared with the hardware's. `arena` has program->arena_bytes and, like the
 * program's constants, lies at a multiple of TILEWRIGHT_REGION_ALIGNMENT on the bus. Device: open or loaded. */
tilewright_status tilewright_load(tilewright_device *device, const tilewright_program *program, void *arena);

/* Starts a run on the inputs that are in the arena. Device: loaded. */
tilewright_status tilewright_start(tilewright_device *device);

/* OK once the run has ended, RUNNING before, FAULT if it stopped early. Device: running. */
tilewright_status tilewright_poll(tilewright_device *device);

/* Polls at most so many times. After TIME the device is still running: poll again, or stop it. */
tilewright_status tilewright_wait(tilewright_device *device, uint32_t polls);

/* Ends a run in the middle and waits until what it has on the bus has ended, too: nothing is written afterwards. The
 * next run works. OK also if the run ended by itself meanwhile. Device: running. */
tilewright_status tilewright_stop(tilewright_device *device, uint32_t polls);

/* Brings the hardware to its state after power-up at once, whatever it does. It forgets what is open on the bus: stop
 * first, or, after TILEWRIGHT_BUS, reset the bus next, before anything is loaded. Device: any but closed. */
tilewright_status tilewright_reset(tilewright_device *device);

/* Start and wait. */
tilewright_status tilewright_infer(tilewright_device *device, uint32_t polls);

/* Why the last run stopped. Device: loaded. */
tilewright_status tilewright_read_fault(const tilewright_device *device, tilewright_fault *fault);

/* For how many cycles the bus may owe an answer before a run ends with TILEWRIGHT_FAULT_TIMEOUT; 0: for ever. It holds
 * until a reset. Device: open or loaded. */
tilewright_status tilewright_set_watchdog(tilewright_device *device, uint32_t cycles);

/* Lets the machine interrupt at the end of each run, or not. Device: any but closed. */
tilewright_status tilewright_enable_interrupt(tilewright_device *device, int is_enabled);

/* For the interrupt's handler: takes the interrupt back; whether it was this machine's. Device: any but closed. */
int tilewright_acknowledge(const tilewright_device *device);

/* The number of the hardware's table of registers. Device: any but closed. */
uint32_t tilewright_version(const tilewright_device *device);

/* A register of 64 bits by its offset, such as TILEWRIGHT_REGISTER_COUNTER_CYCLES; of a counter, also during a run. */
uint64_t tilewright_read64(const tilewright_device *device, uint32_t offset);

const char *tilewright_status_name(tilewright_status status);
const char *tilewright_state_name(tilewright_state state);

/* Copies a program's constants to memory that the machine can read, of tilewright_constant_bytes(program): for boards
 * whose flash is not on the machine's bus. `placed` is the program to load then. */
uint64_t tilewright_constant_bytes(const tilewright_program *program);
void tilewright_place(const tilewright_program *program, void *memory, tilewright_program *placed);

/* How an array of the network lies in DRAM. */
typedef struct {
    uint32_t stored[4]; /* images, channels, rows, columns */
    uint32_t lanes;     /* channels that lie side by side */
    uint32_t rank;
    const uint32_t *sizes;   /* of the array's dimensions, in the order in which they are stored, */
    const uint32_t *strides; /* and how many elements of the array each steps over */
    const uint32_t *windows; /* NULL, or: channels, height, width, top, left, fold, down, across */
} tilewright_layout;

/* Constants that a machine reads where they are begin at a page of its bus. */
#if defined(__GNUC__) || defined(__clang__)
#define TILEWRIGHT_ALIGNED __attribute__((aligned(TILEWRIGHT_REGION_ALIGNMENT)))
#else
#define TILEWRIGHT_ALIGNED
#endif

#define TILEWRIGHT_NO_ELEMENT ((size_t)-1)

/* How many elements are stored, with those that fill up the lanes. */
size_t tilewright_places(const tilewright_layout *layout);

/* The element of the array that is stored at a place; TILEWRIGHT_NO_ELEMENT where there is none. */
size_t tilewright_element(const tilewright_layout *layout, size_t place);

/* round(real / scale) + zero_point, ties to even, from low to high; NaN gives low. */
int32_t tilewright_quantize(float real, float scale, int32_t zero_point, int32_t low, int32_t high);

#ifdef __cplusplus
}
#endif

#endif
