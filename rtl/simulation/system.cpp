// A system with a processor, from its reset to the end of its firmware: what it writes to its serial line goes to
// standard output, and at the end a line of cycles.
//
// The firmware ends with the byte 4 on the line, and its code after it.

#include "Vtop.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>

namespace {

constexpr int END_OF_TRANSMISSION = 4;
constexpr unsigned CALLED = 1, RUNNING = 2, DONE = 4;

}  // namespace

int main(int, char** arguments) {
    auto top = std::make_unique<Vtop>();
    const uint64_t most_cycles = std::strtoull(arguments[1], nullptr, 10);
    uint64_t cycle = 0, called = 0, first = 0, started = 0, ended = 0, machine = 0, returned = 0;
    unsigned before = 0;
    bool is_ending = false;
    top->serial_source_ready = 1;
    top->sys_rst = 1;
    for (; cycle < most_cycles; cycle++) {
        if (cycle == 8) top->sys_rst = 0;
        top->sys_clk = 1;
        top->eval();
        const unsigned now = top->lights, risen = now & ~before, fallen = before & ~now;
        if (risen & CALLED) called = cycle, first = 0, machine = 0;
        if (risen & RUNNING) started = cycle, first = first ? first : cycle;
        if (risen & DONE) ended = cycle, machine += ended - started;
        if (fallen & CALLED) returned = cycle;
        before = now;
        top->sys_clk = 0;
        top->eval();
        if (!top->serial_source_valid) continue;
        const int letter = top->serial_source_data;
        if (is_ending) {
            std::printf("cycles: %lu until the call, %lu to the start, %lu of the machine, %lu between its runs, "
                        "%lu to the return\n",
                        called, first - called, machine, ended - first - machine, returned - ended);
            return letter;
        }
        is_ending = letter == END_OF_TRANSMISSION;
        if (!is_ending) std::putchar(letter);
    }
    std::fprintf(stderr, "the firmware did not end within %lu cycles\n", most_cycles);
    return 255;
}
