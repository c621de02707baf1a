// A board with the simulated machine, for programs in C: its registers, and memory on its bus.
//
// The clock runs while a register is read or written, and while the program waits.

#include "Vtop.h"

#include <cstdint>
#include <cstdlib>

extern "C" {

void tilewright_attach_dram(uint8_t* bytes, uint64_t size, uint64_t bus_bytes, uint64_t latency_cycles);
void tilewright_attach_seen(int64_t* seen);

namespace {

constexpr uint64_t PAGE = 4096, MEMORY_BYTES = BOARD_MEMORY_BYTES;

Vtop* top = nullptr;
uint8_t* memory = nullptr;
uint64_t used = 0;
int64_t seen[3] = {};

void edge() {
    top->clock = 1;
    top->eval();
    top->clock = 0;
    top->eval();
}

void start() {
    if (top != nullptr) return;
    top = new Vtop;
    memory = static_cast<uint8_t*>(std::aligned_alloc(PAGE, MEMORY_BYTES));
    for (uint64_t byte = 0; byte < MEMORY_BYTES; byte++) memory[byte] = 0;
    tilewright_attach_dram(memory, MEMORY_BYTES, BOARD_BUS_BYTES, BOARD_LATENCY_CYCLES);
    tilewright_attach_seen(seen);
    top->host_bready = top->host_rready = 1;
    top->host_wstrb = 0xf;
    top->reset = top->clear = 1;
    for (int cycle = 0; cycle < 3; cycle++) edge();
    top->reset = top->clear = 0;
    edge();
}

}  // namespace

uint32_t board_read(void*, uint32_t offset) {
    start();
    top->host_araddr = offset;
    top->host_arvalid = 1;
    top->eval();
    while (!top->host_arready) edge();
    edge();
    top->host_arvalid = 0;
    top->eval();
    while (!top->host_rvalid) edge();
    uint32_t word = top->host_rdata;
    edge();
    return word;
}

void board_write(void*, uint32_t offset, uint32_t word) {
    start();
    top->host_awaddr = offset;
    top->host_wdata = word;
    top->host_awvalid = top->host_wvalid = 1;
    top->eval();
    while (!(top->host_awready && top->host_wready)) edge();
    edge();
    top->host_awvalid = top->host_wvalid = 0;
    top->eval();
    while (!top->host_bvalid) edge();
    edge();
}

void board_pause(void*) {
    for (int cycle = 0; cycle < 16; cycle++) edge();
}

#include "board_memory.h"

}  // extern "C"
