/* Breaks one run after another on a board whose bus is unruly, and checks each time that the break is reported in
 * bounded time, that nothing is written afterwards, and that the next run gives the right bytes.
 *
 * program SEED COUNT: so many breaks, of each kind in turn; where and when is drawn from the seed.
 */
#include <stdio.h>
#include <stdlib.h>

#include "net.h"
#include "places.h" /* of the machine and the program: see faults.py */
#include "platform.h"
#include "test_vector.h"

void board_mood(uint64_t seed, uint32_t of_256);
void board_break(int what, uint64_t after_events);
void board_heal(void);
int board_has_fired(void);
uint64_t board_fired_at(void);
uint64_t board_events(void);
uint64_t board_cycle(void);
uint64_t board_written_bytes(void);
uint64_t board_register_writes(void);
uint64_t board_register_accesses(void);
uint64_t board_bytes_after_end(void);
uint64_t board_broken_rules(void);
int board_interrupts(void);
void board_reset(void);
void board_reset_bus(void);

enum {
    READ_SLVERR = 1, READ_DECERR, FETCH_SLVERR, FETCH_DECERR, WRITE_SLVERR, WRITE_DECERR,
    SILENT_AR, SILENT_R, SILENT_AW, SILENT_W, SILENT_B,
    OPCODE, OVERRUN, STOP, PIN_RESET, DRIVER_RESET, OTHER_MACHINE, KINDS
};

static const char *const names[] = {
    "", "a read beat SLVERR", "a read beat DECERR", "an instruction's beat SLVERR", "an instruction's beat DECERR",
    "a write SLVERR", "a write DECERR", "AR never ready", "R never valid", "AW never ready", "W never ready",
    "B never valid", "illegal opcode", "region overrun", "stopped", "reset by its pin", "reset by the driver",
    "another machine's program",
};

#define WATCHDOG 1000U
#define POLLS 1000000U
#define SLACK 4000U /* cycles: what is on its way on the bus, and the driver's polls */

static tilewright_device device;
static tilewright_program placed;
static uint8_t *arena;
static uint64_t draws, clean_cycles, forgiven, events[KINDS], longest[KINDS];
static unsigned long current, injected[KINDS], reported[KINDS];
static int kind;

static uint64_t draw(uint64_t below)
{
    draws ^= draws >> 12;
    draws ^= draws << 25;
    draws ^= draws >> 27;
    return draws * 0x2545F4914F6CDD1DULL % below;
}

static void expect(int holds, const char *what)
{
    if (!holds) {
        tilewright_fault fault = {0, 0, 0, "", ""};
        (void)tilewright_read_fault(&device, &fault);
        printf("break %lu (%s): expected that %s; device %s, fault %lu at instruction %lu\n", current, names[kind], what,
               tilewright_state_name(device.state), (unsigned long)fault.code, (unsigned long)fault.instruction);
        exit(1);
    }
}

static void pause_for(unsigned pauses)
{
    while (pauses-- > 0U) {
        device.platform->pause(NULL);
    }
}

static void load(void)
{
    expect(tilewright_load(&device, &placed, arena) == TILEWRIGHT_OK, "the program loads");
    expect(tilewright_set_watchdog(&device, WATCHDOG) == TILEWRIGHT_OK, "the watchdog is set");
    expect(tilewright_enable_interrupt(&device, 1) == TILEWRIGHT_OK, "the interrupt is enabled");
}

/* Inputs in place, and no output left of an earlier run. */
static void prepare(void)
{
    uint64_t byte;
    test_vector_set(arena);
    for (byte = 0; byte < placed.bytes[TILEWRIGHT_REGION_OUTPUTS]; byte++) {
        arena[placed.place[TILEWRIGHT_REGION_OUTPUTS] + byte] = 0x55;
    }
    board_mood(draw(1U << 30), 64U + (uint32_t)draw(193U));
}

static void run_clean(int is_started)
{
    board_break(0, 0);
    expect(is_started || tilewright_start(&device) == TILEWRIGHT_OK, "the next run starts");
    expect(tilewright_wait(&device, POLLS) == TILEWRIGHT_OK, "the next run ends");
    expect(test_vector_different(arena) == 0U, "the next run's outputs are right");
    expect(board_interrupts() == 1, "its end interrupts");
    expect(tilewright_acknowledge(&device) == 1 && board_interrupts() == 0, "that is acknowledged");
}

/* The code of the fault, 0 for none, once the run has ended; within so many cycles of what broke it. */
static uint32_t ends_within(uint64_t cycles)
{
    tilewright_fault fault = {0, 0, 0, "", ""};
    tilewright_status status = tilewright_wait(&device, POLLS);
    uint64_t now = board_cycle();
    expect(status == TILEWRIGHT_OK || status == TILEWRIGHT_FAULT, "the run ends");
    expect(tilewright_read_fault(&device, &fault) == TILEWRIGHT_OK, "the fault is read");
    if (board_has_fired() && status == TILEWRIGHT_FAULT) {
        uint64_t taken = now - board_fired_at();
        longest[kind] = taken > longest[kind] ? taken : longest[kind];
        expect(taken <= cycles, "it ends in time");
        expect(fault.code == 1U || kind == OPCODE || fault.layer[0] != '\0' || fault.instruction == PLACES,
               "the fault has a layer");
    }
    return status == TILEWRIGHT_FAULT ? fault.code : 0U;
}

static void expect_quiet(void)
{
    uint64_t written = board_written_bytes();
    pause_for(64U);
    expect(board_written_bytes() == written, "nothing is written afterwards");
    expect(board_bytes_after_end() <= ONE_BEAT, "of what was on the bus, only the beat that stood there has bytes");
}

/* First the machine, which takes back what it offers, then the bus, which minds. */
static void reset_with_bus(void)
{
    uint64_t broken = board_broken_rules();
    expect(tilewright_reset(&device) == TILEWRIGHT_OK, "the driver resets");
    board_reset_bus();
    forgiven += board_broken_rules() - broken;
}

static void break_bus(void)
{
    int is_silent = kind >= SILENT_AR && kind <= SILENT_B;
    uint32_t code;
    board_break(kind, draw(events[kind]));
    expect(tilewright_start(&device) == TILEWRIGHT_OK, "the run starts");
    code = ends_within(is_silent ? WATCHDOG + SLACK : 16U * clean_cycles + SLACK);
    expect(board_has_fired(), "the bus broke it");
    injected[kind]++;
    expect(code == (is_silent ? TILEWRIGHT_FAULT_TIMEOUT : TILEWRIGHT_FAULT_BUS), "the break is reported");
    reported[kind]++;
    expect_quiet();
    if (is_silent && draw(2U) != 0U) {
        reset_with_bus();
        board_heal();
        load();
    } else if (is_silent) { /* it answers after all: to nobody */
        unsigned waited = 0;
        board_heal();
        prepare();
        while (tilewright_start(&device) == TILEWRIGHT_BUS) {
            expect(waited++ < 10000U, "the bus has given what it owes");
            expect(board_bytes_after_end() <= ONE_BEAT, "of what comes late, only the beat that stood there has bytes");
            pause_for(1U);
        }
        run_clean(1);
        prepare();
    }
}

static void break_program(void)
{
    uint32_t place = places[draw(PLACES)];
    uint8_t *opcode = (uint8_t *)(uintptr_t)placed.text + place, before = *opcode;
    *opcode = UNKNOWN_OPCODE;
    board_break(0, 0);
    injected[kind]++;
    expect(tilewright_start(&device) == TILEWRIGHT_OK, "the run starts");
    expect(ends_within(0) == TILEWRIGHT_FAULT_OPCODE, "the opcode is reported");
    reported[kind]++;
    expect_quiet();
    *opcode = before;
}

static void overrun(void)
{
    tilewright_program small = placed;
    uint32_t region = regions[draw(USED_REGIONS)];
    small.bytes[region] = draw(placed.bytes[region]);
    board_break(0, 0);
    injected[kind]++;
    expect(tilewright_load(&device, &small, arena) == TILEWRIGHT_OK, "the program loads");
    expect(tilewright_start(&device) == TILEWRIGHT_OK, "the run starts");
    expect(ends_within(0) == TILEWRIGHT_FAULT_REGION, "the region is reported");
    reported[kind]++;
    expect_quiet();
    load();
}

static void end_in_the_middle(void)
{
    uint64_t end = board_cycle() + draw(2U * clean_cycles);
    tilewright_fault fault;
    board_break(0, 0);
    injected[kind]++;
    expect(tilewright_start(&device) == TILEWRIGHT_OK, "the run starts");
    while (board_cycle() < end) {
        pause_for(1U);
    }
    if (kind == STOP) {
        expect(tilewright_stop(&device, SLACK / 16U) == TILEWRIGHT_OK, "it stops");
        expect(tilewright_read_fault(&device, &fault) == TILEWRIGHT_OK, "the fault is read");
        expect(fault.code == TILEWRIGHT_FAULT_STOPPED || (fault.code == 0U && test_vector_different(arena) == 0U),
               "the stop is reported");
        expect_quiet();
    } else if (kind == PIN_RESET) {
        board_reset();
        expect_quiet();
        expect(tilewright_open(&device, board_platform()) == TILEWRIGHT_OK, "the machine is there");
        load();
    } else {
        reset_with_bus();
        expect_quiet();
        load();
    }
    reported[kind]++;
}

static void give_another_machine_s(void)
{
    tilewright_program other = placed;
    uint64_t writes = board_register_writes();
    other.isa_hash ^= 1U << draw(32U);
    injected[kind]++;
    expect(tilewright_load(&device, &other, arena) == TILEWRIGHT_OTHER_MACHINE, "it is refused");
    expect(board_register_writes() == writes, "no register was written");
    reported[kind]++;
}

static void measure(void)
{
    uint64_t first, accesses;
    kind = 0;
    prepare();
    board_mood(1U, 256U);
    first = board_cycle();
    accesses = board_register_accesses();
    expect(tilewright_start(&device) == TILEWRIGHT_OK, "a run starts");
    printf("host: a start takes %lu accesses to registers, %lu cycles; each poll 1 access\n",
           (unsigned long)(board_register_accesses() - accesses), (unsigned long)(board_cycle() - first));
    run_clean(1);
    clean_cycles = board_cycle() - first;
    for (kind = READ_SLVERR; kind <= SILENT_B; kind++) {
        prepare();
        board_break(kind, UINT64_MAX);
        expect(tilewright_infer(&device, POLLS) == TILEWRIGHT_OK, "a run ends");
        events[kind] = board_events();
        expect(events[kind] > 0U, "a run has such an event");
    }
}

int main(int count, char **arguments)
{
    unsigned long breaks = count > 2 ? strtoul(arguments[2], NULL, 10) : 0;
    draws = (count > 1 ? strtoull(arguments[1], NULL, 10) : 0U) * 0x9E3779B97F4A7C15ULL | 1U;
    arena = (uint8_t *)board_memory(NET_ARENA_BYTES);
    tilewright_place(&net_program, board_memory(tilewright_constant_bytes(&net_program)), &placed);
    expect(tilewright_open(&device, board_platform()) == TILEWRIGHT_OK, "the machine is there");
    load();
    measure();
    for (current = 0; current < breaks; current++) {
        kind = (int)(current % (KINDS - 1U)) + 1;
        prepare();
        if (kind <= SILENT_B) {
            break_bus();
        } else if (kind == OPCODE) {
            break_program();
        } else if (kind == OVERRUN) {
            overrun();
        } else if (kind == OTHER_MACHINE) {
            give_another_machine_s();
        } else {
            end_in_the_middle();
        }
        prepare();
        run_clean(0);
        expect(board_broken_rules() == forgiven, "the machine keeps the bus's rules");
    }
    for (kind = 1; kind < KINDS; kind++) {
        printf("%s,%lu,%lu,%lu\n", names[kind], injected[kind], reported[kind], (unsigned long)longest[kind]);
    }
    return 0;
}
