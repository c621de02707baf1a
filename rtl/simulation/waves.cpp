// What each engine works on, for waves: the oldest of its instructions that has started and is not completed.

#include <svdpi.h>
#include <verilated.h>

#include <cstdint>
#include <cstring>

namespace {

constexpr int MNEMONIC_BYTES = 24, LAYER_BYTES = 40, TEXT_BYTES = MNEMONIC_BYTES + LAYER_BYTES;

struct Waves {
    const uint8_t* texts = nullptr;  // [engine][nth][mnemonic, layer], padded with zeros in front
    const int64_t* numbers = nullptr;  // [engine][nth]: the position in the program
    int64_t engines = 0, length = 0;
    int64_t first = 0, last = 0;  // cycles
    bool has_begun = false, has_ended = false;
    int64_t started[16] = {}, retired[16] = {};
};

Waves waves;

[[maybe_unused]] const bool is_tracing = (Verilated::traceEverOn(true), true);

void put(const uint8_t* text, int bytes, svBitVecVal* target) {
    for (int word = 0; word < bytes / 4; word++) target[word] = 0;
    for (int byte = 0; byte < bytes; byte++)
        target[byte / 4] |= static_cast<svBitVecVal>(text[bytes - 1 - byte]) << 8 * (byte % 4);
}

}  // namespace

extern "C" {

void tilewright_attach_waves(const uint8_t* texts, const int64_t* numbers, int64_t engines, int64_t length,
                             int64_t first, int64_t last) {
    waves = Waves{};
    waves.texts = texts;
    waves.numbers = numbers;
    waves.engines = engines;
    waves.length = length;
    waves.first = first;
    waves.last = last;
}

void tilewright_note(svBit running, int started, int retired) {
    if (!running) return;
    for (int engine = 0; engine < waves.engines; engine++) {
        waves.started[engine] += started >> engine & 1;
        waves.retired[engine] += retired >> engine & 1;
    }
}

void tilewright_shown(int engine, int* number, svBitVecVal* mnemonic, svBitVecVal* layer) {
    static const uint8_t nothing[TEXT_BYTES] = {};
    const uint8_t* text = nothing;
    int64_t nth = waves.retired[engine];
    *number = -1;
    if (nth < waves.started[engine] && nth < waves.length) {
        int64_t place = engine * waves.length + nth;
        text = waves.texts + place * TEXT_BYTES;
        *number = static_cast<int>(waves.numbers[place]);
    }
    put(text, MNEMONIC_BYTES, mnemonic);
    put(text + MNEMONIC_BYTES, LAYER_BYTES, layer);
}

// 1 where the waves begin, 2 where they end, otherwise 0; `cycle` is the one that begins.
int tilewright_waves(int64_t cycle) {
    if (waves.texts == nullptr || waves.has_ended) return 0;
    if (!waves.has_begun && cycle >= waves.first) {
        waves.has_begun = true;
        return 1;
    }
    if (waves.has_begun && cycle > waves.last) {
        waves.has_ended = true;
        return 2;
    }
    return 0;
}

}  // extern "C"
