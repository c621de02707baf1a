// The memory behind the bus, as docs/microarchitecture.md describes it, and the trace of a run.
//
// `tilewright_cycle` is called at every clock edge for each AXI port, with its signals of the cycle that ends, and
// returns those of the next one. Ports share nothing but what is stored; the first one also notes the trace. The test
// bench, which lives in the same process, hands over its arrays with the `attach` functions, and may have the clock run
// by `tilewright_run`.

#include <svdpi.h>

#include "Vtop.h"
#include "Vtop__Syms.h"

#include <cstdint>
#include <cstring>
#include <deque>

namespace {

struct Read {
    uint64_t address;  // of the next beat
    int beats_left;
    int id;
    uint64_t first_cycle;
};

struct Response {
    uint64_t cycle;
    bool error;
};

struct Port {
    uint64_t clock_cycle = 0;
    std::deque<Read> reads;
    bool is_offered = false;  // a beat of the oldest read is on the bus
    std::deque<uint64_t> writes;  // address of each write burst's next beat
    std::deque<Response> responses;
    bool write_error = false;
};

struct Bench {
    uint8_t* dram = nullptr;
    uint64_t dram_bytes = 0;
    uint64_t bus_bytes = 1;
    uint64_t latency_cycles = 1;
    Port ports[16];

    int64_t* trace = nullptr;  // [started, retired][engine][nth]
    int64_t engines = 0, trace_length = 0;
    int64_t count[2][32] = {};
    int64_t run_cycle = 0;
    int64_t* seen = nullptr;  // of the run: cycles until all is done, bytes read and bytes written on the bus

    struct {
        uint8_t* bytes;
        uint64_t word_bytes;
    } memories[64] = {};
};

Bench bench;

uint64_t bytes_inside(uint64_t address) {
    if (address >= bench.dram_bytes) return 0;
    uint64_t left = bench.dram_bytes - address;
    return left < bench.bus_bytes ? left : bench.bus_bytes;
}

uint64_t beat_start(uint64_t address) { return address & ~(bench.bus_bytes - 1); }

void note(int kind, int bits, int64_t cycle) {
    for (int engine = 0; engine < bench.engines; engine++) {
        if (!(bits >> engine & 1)) continue;
        int64_t nth = bench.count[kind][engine]++;
        if (nth < bench.trace_length) bench.trace[(kind * bench.engines + engine) * bench.trace_length + nth] = cycle;
    }
}

void write_beat(Port& port, bool is_last, const svBitVecVal* data, const svBitVecVal* strobes) {
    if (port.writes.empty()) return;
    uint64_t& address = port.writes.front();
    uint64_t inside = bytes_inside(address);
    if (inside == 0) port.write_error = true;
    for (uint64_t byte = 0; byte < inside; byte++)
        if (strobes[byte / 32] >> byte % 32 & 1) bench.dram[address + byte] = data[byte / 4] >> 8 * (byte % 4);
    address += bench.bus_bytes;
    if (!is_last) return;
    port.responses.push_back({port.clock_cycle + bench.latency_cycles, port.write_error});
    port.writes.pop_front();
    port.write_error = false;
}

}  // namespace

extern "C" {

// Clock cycles until the machine is done, at most so many; whether it is done then. The clock is high before and after.
// It is the test bench's own clock, without the simulator's time and all that waits for it.
bool tilewright_run(int64_t max_cycles) {
    auto scope = static_cast<const VerilatedScope*>(svGetScopeFromName("bench"));
    Vtop* top = static_cast<Vtop__Syms*>(scope->symsp())->__Vm_modelp;
    for (int64_t cycle = 0; cycle < max_cycles && !top->done; cycle++)
        for (int level : {0, 1}) {
            top->clock = level;
            top->eval();
        }
    return top->done;
}

void tilewright_attach_dram(uint8_t* bytes, uint64_t size, uint64_t bus_bytes, uint64_t latency_cycles) {
    bench.dram = bytes;
    bench.dram_bytes = size;
    bench.bus_bytes = bus_bytes;
    bench.latency_cycles = latency_cycles;
}

void tilewright_attach_trace(int64_t* trace, int64_t engines, int64_t length) {
    bench.trace = trace;
    bench.engines = engines;
    bench.trace_length = length;
    std::memset(bench.count, 0, sizeof bench.count);
    bench.run_cycle = 0;
}

void tilewright_attach_seen(int64_t* seen) { bench.seen = seen; }

void tilewright_attach_memory(int number, uint8_t* bytes, uint64_t word_bytes) {
    bench.memories[number] = {bytes, word_bytes};
}

void tilewright_dump(int memory, int address, const svBitVecVal* data) {
    auto& target = bench.memories[memory];
    std::memcpy(target.bytes + address * target.word_bytes, data, target.word_bytes);
}

void tilewright_cycle(int number, svBit reset, svBit running, int started, int retired, svBit rready, svBit arvalid,
                      int arid, int64_t araddr, int arlen, svBit awvalid, int64_t awaddr, svBit wvalid, svBit wlast, const svBitVecVal* wdata,
                      const svBitVecVal* wstrb, svBit* rvalid, int* rid, svBit* rlast, svBit* rerror,
                      svBitVecVal* rdata, svBit* bvalid, svBit* berror) {
    *rvalid = *rlast = *rerror = *bvalid = *berror = 0;
    *rid = 0;
    std::memset(rdata, 0, (bench.bus_bytes + 3) / 4 * 4);  // also where nobody reads it: waves show it
    Port& port = bench.ports[number];
    if (reset) {
        port = Port();
        return;
    }
    if (running) {
        if (number == 0) {
            note(0, started, bench.run_cycle);
            note(1, retired, bench.run_cycle + 1);
            bench.seen[0] = bench.run_cycle++;  // in the last of them, all is done already
        }
        if (port.is_offered && rready) bench.seen[1] += bench.bus_bytes;
        if (wvalid)
            for (uint64_t byte = 0; byte < bench.bus_bytes; byte++) bench.seen[2] += wstrb[byte / 32] >> byte % 32 & 1;
    }
    uint64_t next_cycle = port.clock_cycle + 1;
    if (arvalid)
        port.reads.push_back(
            {beat_start(araddr), arlen + 1, arid, port.clock_cycle + bench.latency_cycles});
    if (awvalid) port.writes.push_back(beat_start(awaddr));
    if (wvalid) write_beat(port, wlast, wdata, wstrb);
    if (port.is_offered && rready) {
        Read& read = port.reads.front();
        read.address += bench.bus_bytes;
        if (--read.beats_left == 0) port.reads.pop_front();
    }
    port.is_offered = !port.reads.empty() && port.reads.front().first_cycle <= next_cycle;
    if (port.is_offered) {
        const Read& read = port.reads.front();
        uint64_t inside = bytes_inside(read.address);
        std::memcpy(rdata, bench.dram + read.address, inside);
        *rvalid = 1;
        *rid = read.id;
        *rlast = read.beats_left == 1;
        *rerror = inside == 0;
    }
    if (!port.responses.empty() && port.responses.front().cycle <= next_cycle) {
        *bvalid = 1;
        *berror = port.responses.front().error;
        port.responses.pop_front();
    }
    port.clock_cycle = next_cycle;
}

}  // extern "C"
