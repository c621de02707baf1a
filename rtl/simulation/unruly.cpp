// A board whose bus does all that AXI4 (ARM IHI 0022) allows and a machine must bear: it lets every channel wait at
// random, gives the beats of several reads in turns, answers with errors, falls silent, and answers late.
//
// pins.h, written for the machine, has `sample` and `drive`, which copy between the machine's pins and `ports`. The
// clock runs while a register is read or written, and while the program waits.

#include "Vtop.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>

namespace {

constexpr uint64_t PAGE = 4096, MEMORY_BYTES = BOARD_MEMORY_BYTES, BUS_BYTES = BOARD_BUS_BYTES;
constexpr int PORTS = BOARD_PORTS, ANY = -1;
constexpr int OKAY = 0, SLVERR = 2, DECERR = 3;

enum Kind { NOTHING, READ_SLVERR, READ_DECERR, FETCH_SLVERR, FETCH_DECERR, WRITE_SLVERR, WRITE_DECERR,
            SILENT_AR, SILENT_R, SILENT_AW, SILENT_W, SILENT_B };

struct Burst {
    uint64_t address;  // of the next beat
    int beats_left;
    uint64_t id;
};

struct Beat {
    uint8_t data[BUS_BYTES], strobes[(BUS_BYTES + 7) / 8];
    bool is_last;
};

// What a sender holds until it is accepted: to see that it does.
struct Offer {
    bool is_held = false;
    uint64_t address = 0, length = 0;
    Beat beat = {};
};

struct Port {
    // The machine's pins, and those of the bus.
    uint64_t arvalid = 0, arid = 0, araddr = 0, arlen = 0, rready = 0, awvalid = 0, awid = 0, awaddr = 0, awlen = 0;
    uint64_t wvalid = 0, wlast = 0, bready = 0;
    uint64_t arready = 0, rvalid = 0, rid = 0, rlast = 0, rresp = 0, awready = 0, wready = 0, bvalid = 0, bid = 0, bresp = 0;
    uint8_t wdata[BUS_BYTES] = {}, wstrb[(BUS_BYTES + 7) / 8] = {}, rdata[BUS_BYTES] = {};

    std::deque<Burst> reads, writes;
    std::deque<Beat> beats;  // taken, and of no burst yet whose address was taken
    std::deque<Burst> answers;
    Offer ar, aw, w;
};

Port ports[PORTS];
Vtop* top = nullptr;
uint8_t* memory = nullptr;
uint64_t used = 0, random_state = 1, eagerness = 256;

Kind kind = NOTHING;
uint64_t after = 0, events = 0, fired_at = 0, cycle = 0, written_bytes = 0, broken_rules = 0;
uint64_t register_writes = 0, register_reads = 0, bytes_after_end = 0;
bool has_fired = false;

#include "pins.h"

uint64_t draw() {  // xorshift64*, Vigna 2016
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return random_state * 0x2545F4914F6CDD1DULL >> 32;
}

bool moves() { return (draw() & 255) < eagerness; }

void fire() {
    if (!has_fired) fired_at = cycle;
    has_fired = true;
}

// Whether the bus is silent on a channel that the machine waits for.
bool is_silent(Kind which, bool is_waited_for) {
    if (kind != which || events < after) return false;
    if (is_waited_for) fire();
    return true;
}

// The response to a beat or a burst: the nth of its kind is refused.
int response(Kind slave, Kind decode, uint64_t address) {
    if (address + BUS_BYTES > MEMORY_BYTES) return DECERR;
    if (kind != slave && kind != decode) return OKAY;
    if (events++ != after) return OKAY;
    fire();
    return kind == slave ? SLVERR : DECERR;
}

void keep_rules(Offer& offer, bool is_valid, bool is_ready, uint64_t address, uint64_t length, const Beat& beat) {
    if (offer.is_held && !(is_valid && offer.address == address && offer.length == length &&
                           std::memcmp(&offer.beat, &beat, sizeof beat) == 0))
        broken_rules++;
    offer = {is_valid && !is_ready, address, length, beat};
    if (is_valid && address / PAGE != (address / BUS_BYTES * BUS_BYTES + (length + 1) * BUS_BYTES - 1) / PAGE)
        broken_rules++;
}

void store(Port& port) {
    while (!port.beats.empty() && !port.writes.empty()) {
        Burst& burst = port.writes.front();
        const Beat& beat = port.beats.front();
        for (uint64_t byte = 0; byte < BUS_BYTES; byte++) {
            if (!(beat.strobes[byte / 8] >> byte % 8 & 1)) continue;
            written_bytes++;
            if (burst.address + byte < MEMORY_BYTES) memory[burst.address + byte] = beat.data[byte];
        }
        if (beat.is_last != (burst.beats_left == 1)) broken_rules++;
        burst.address += BUS_BYTES;
        if (--burst.beats_left == 0) {
            port.answers.push_back(burst);
            port.writes.pop_front();
        }
        port.beats.pop_front();
    }
}

void take(Port& port) {
    Beat beat = {};
    std::memcpy(beat.data, port.wdata, sizeof beat.data);
    std::memcpy(beat.strobes, port.wstrb, sizeof beat.strobes);
    beat.is_last = port.wlast;
    keep_rules(port.ar, port.arvalid, port.arready, port.araddr, port.arlen, Beat());
    keep_rules(port.aw, port.awvalid, port.awready, port.awaddr, port.awlen, Beat());
    keep_rules(port.w, port.wvalid, port.wready, 0, 0, beat);
    uint64_t page_start = ~(BUS_BYTES - 1);
    if (port.arvalid && port.arready) {
        port.reads.push_back({port.araddr & page_start, static_cast<int>(port.arlen) + 1, port.arid});
        if (kind == SILENT_AR) events++;
    }
    if (port.awvalid && port.awready) {
        port.writes.push_back({port.awaddr & page_start, static_cast<int>(port.awlen) + 1, port.awid});
        if (kind == SILENT_AW) events++;
    }
    if (port.wvalid && port.wready) {
        port.beats.push_back(beat);
        for (uint64_t byte = 0; byte < BUS_BYTES; byte++)
            if (!top->running) bytes_after_end += beat.strobes[byte / 8] >> byte % 8 & 1;
        if (kind == SILENT_W) events++;
    }
    store(port);
    if (port.rvalid && port.rready) port.rvalid = 0;
    if (port.bvalid && port.bready) port.bvalid = 0;
}

// A beat of one of the reads: of those with the same ID the first, of others any.
void offer_beat(Port& port) {
    size_t chosen = draw() % port.reads.size();
    for (size_t before = 0; before < chosen; before++)
        if (port.reads[before].id == port.reads[chosen].id) chosen = before;
    Burst& burst = port.reads[chosen];
    bool is_fetch = &port == &ports[0] && burst.id == 0;
    port.rvalid = 1;
    port.rid = burst.id;
    port.rlast = burst.beats_left == 1;
    bool wants_fetch = kind == FETCH_SLVERR || kind == FETCH_DECERR;
    port.rresp = wants_fetch ? (is_fetch ? response(FETCH_SLVERR, FETCH_DECERR, burst.address) : OKAY)
                             : response(READ_SLVERR, READ_DECERR, burst.address);
    if (kind == SILENT_R) events++;
    std::memset(port.rdata, 0, BUS_BYTES);
    if (burst.address + BUS_BYTES <= MEMORY_BYTES) std::memcpy(port.rdata, memory + burst.address, BUS_BYTES);
    burst.address += BUS_BYTES;
    if (--burst.beats_left == 0) port.reads.erase(port.reads.begin() + static_cast<long>(chosen));
}

void offer_answer(Port& port) {
    const Burst& burst = port.answers.front();
    port.bvalid = 1;
    port.bid = burst.id;
    port.bresp = response(WRITE_SLVERR, WRITE_DECERR, burst.address - BUS_BYTES);
    if (kind == SILENT_B) events++;
    port.answers.pop_front();
}

void offer(Port& port) {
    port.arready = moves() && !is_silent(SILENT_AR, port.arvalid);
    port.awready = moves() && !is_silent(SILENT_AW, port.awvalid);
    port.wready = moves() && !is_silent(SILENT_W, port.wvalid);
    if (!port.rvalid && !port.reads.empty() && moves() && !is_silent(SILENT_R, true)) offer_beat(port);
    if (!port.bvalid && !port.answers.empty() && moves() && !is_silent(SILENT_B, true)) offer_answer(port);
}

void edge() {
    top->eval();
    sample(top);
    if (top->running) bytes_after_end = 0;
    if (!top->rst)
        for (Port& port : ports) take(port);
    top->clk = 1;
    top->eval();
    top->clk = 0;
    sample(top);
    if (!top->rst)
        for (Port& port : ports) offer(port);
    drive(top);
    top->eval();
    cycle++;
}

void reset_all() {
    for (Port& port : ports) port = Port();
    drive(top);
    top->rst = 1;
    for (int cycles = 0; cycles < 3; cycles++) edge();
    top->rst = 0;
    top->s_axi_arvalid = top->s_axi_awvalid = top->s_axi_wvalid = 0;
    edge();
}

void start() {
    if (top != nullptr) return;
    top = new Vtop;
#if VM_COVERAGE
    std::atexit([] { Verilated::threadContextp()->coveragep()->write("coverage.dat"); });
#endif
    memory = static_cast<uint8_t*>(std::aligned_alloc(PAGE, MEMORY_BYTES));
    std::memset(memory, 0, MEMORY_BYTES);
    top->s_axi_wstrb = 0xf;
    top->s_axi_bready = top->s_axi_rready = 0;
    reset_all();
}

void hesitate() {
    while (!moves()) edge();
}

}  // namespace

extern "C" {

// From now on a channel moves in so many of 256 cycles, drawn from the seed.
void board_mood(uint64_t seed, uint32_t of_256) {
    random_state = seed * 0x9E3779B97F4A7C15ULL | 1;
    eagerness = of_256;
}

// Refuses a beat or a burst after so many, or falls silent on a channel after so many events there.
void board_break(int what, uint64_t after_events) {
    kind = static_cast<Kind>(what);
    after = after_events;
    events = 0;
    has_fired = false;
}

void board_heal(void) { kind = NOTHING; }

int board_has_fired(void) { return has_fired; }

uint64_t board_fired_at(void) { return fired_at; }

uint64_t board_events(void) { return events; }

uint64_t board_register_writes(void) { return register_writes; }

uint64_t board_register_accesses(void) { return register_writes + register_reads; }

uint64_t board_cycle(void) { return cycle; }

uint64_t board_written_bytes(void) { return written_bytes; }

// Of all that was accepted since a run was last going on.
uint64_t board_bytes_after_end(void) { return bytes_after_end; }

uint64_t board_broken_rules(void) { return broken_rules; }

int board_interrupts(void) { return top->irq; }

// The pin of the whole board: the machine and its bus.
void board_reset(void) { reset_all(); }

// The bus alone: what it had taken is forgotten.
void board_reset_bus(void) {
    for (Port& port : ports) port = Port();
    drive(top);
    top->eval();
}

uint32_t board_read(void*, uint32_t offset) {
    start();
    register_reads++;
    hesitate();
    top->s_axi_araddr = offset;
    top->s_axi_arvalid = 1;
    top->eval();
    while (!top->s_axi_arready) edge();
    edge();
    top->s_axi_arvalid = 0;
    hesitate();
    top->s_axi_rready = 1;
    top->eval();
    while (!top->s_axi_rvalid) edge();
    uint32_t word = top->s_axi_rdata;
    edge();
    top->s_axi_rready = 0;
    return word;
}

void board_write(void*, uint32_t offset, uint32_t word) {
    start();
    hesitate();
    register_writes++;
    top->s_axi_awaddr = offset;
    top->s_axi_awvalid = 1;
    hesitate();
    top->s_axi_wdata = word;
    top->s_axi_wvalid = 1;
    top->eval();
    while (!(top->s_axi_awready && top->s_axi_wready)) edge();
    edge();
    top->s_axi_awvalid = top->s_axi_wvalid = 0;
    hesitate();
    top->s_axi_bready = 1;
    top->eval();
    while (!top->s_axi_bvalid) edge();
    edge();
    top->s_axi_bready = 0;
}

void board_pause(void*) {
    for (int cycles = 0; cycles < 16; cycles++) edge();
}

#include "board_memory.h"

}  // extern "C"
