/* SPDX-License-Identifier: Apache-2.0 */
#include "tilewright.h"

/* Small functions that are called from many places: a copy at each makes the driver larger by a tenth. */
#if defined(__GNUC__) || defined(__clang__)
#define ONCE __attribute__((noinline))
#else
#define ONCE
#endif

static ONCE uint32_t read_word(const tilewright_device *device, uint32_t offset)
{
    const tilewright_platform *platform = device->platform;
    if (platform->read != NULL) {
        return platform->read(platform->context, offset);
    }
    return platform->registers[offset / sizeof(uint32_t)];
}

static ONCE void write_word(const tilewright_device *device, uint32_t offset, uint32_t word)
{
    const tilewright_platform *platform = device->platform;
    if (platform->write != NULL) {
        platform->write(platform->context, offset, word);
    } else {
        platform->registers[offset / sizeof(uint32_t)] = word;
    }
}

static ONCE void write64(const tilewright_device *device, uint32_t offset, uint64_t value)
{
    write_word(device, offset, (uint32_t)value);
    write_word(device, offset + (uint32_t)sizeof(uint32_t), (uint32_t)(value >> 32));
}

uint64_t tilewright_read64(const tilewright_device *device, uint32_t offset)
{
    uint64_t low = read_word(device, offset);
    return low | (uint64_t)read_word(device, offset + (uint32_t)sizeof(uint32_t)) << 32;
}

/* Where a program's region begins on the bus. */
static ONCE uint64_t region_address(
    const tilewright_device *device, const tilewright_program *program, const uint8_t *arena, uint32_t region)
{
    const tilewright_platform *platform = device->platform;
    const void *memory = arena + program->place[region];
    if (region == TILEWRIGHT_REGION_PROGRAM) {
        memory = program->text;
    } else if (region == TILEWRIGHT_REGION_WEIGHTS) {
        memory = program->weights;
    }
    if (platform->bus_address != NULL) {
        return platform->bus_address(platform->context, memory);
    }
    return (uint64_t)(uintptr_t)memory;
}

static ONCE void clean(const tilewright_device *device, const void *memory, uint64_t bytes)
{
    if (device->platform->clean != NULL) {
        device->platform->clean(device->platform->context, memory, (size_t)bytes);
    }
}

tilewright_status tilewright_open(tilewright_device *device, const tilewright_platform *platform)
{
    device->platform = platform;
    device->program = NULL;
    device->arena = NULL;
    device->state = TILEWRIGHT_CLOSED;
    if (read_word(device, TILEWRIGHT_REGISTER_ID) != TILEWRIGHT_ID_VALUE) {
        return TILEWRIGHT_NO_MACHINE;
    }
    device->state = TILEWRIGHT_OPEN;
    return TILEWRIGHT_OK;
}

tilewright_status tilewright_load(tilewright_device *device, const tilewright_program *program, void *arena)
{
    uint32_t region;
    if (device->state != TILEWRIGHT_OPEN && device->state != TILEWRIGHT_LOADED) {
        return TILEWRIGHT_STATE;
    }
    if (read_word(device, TILEWRIGHT_REGISTER_ISA_HASH) != program->isa_hash) {
        return TILEWRIGHT_OTHER_MACHINE;
    }
    for (region = 0; region < TILEWRIGHT_REGIONS; region++) {
        uint64_t address = region_address(device, program, (const uint8_t *)arena, region);
        if ((uint32_t)address % TILEWRIGHT_REGION_ALIGNMENT != 0U) {
            return TILEWRIGHT_ALIGNMENT;
        }
    }
    for (region = 0; region < TILEWRIGHT_REGIONS; region++) {
        write64(device, tilewright_region_base[region], region_address(device, program, (const uint8_t *)arena, region));
        write64(device, tilewright_region_limit[region], program->bytes[region]);
    }
    clean(device, program->text, program->bytes[TILEWRIGHT_REGION_PROGRAM]);
    clean(device, program->weights, program->bytes[TILEWRIGHT_REGION_WEIGHTS]);
    device->program = program;
    device->arena = (uint8_t *)arena;
    device->state = TILEWRIGHT_LOADED;
    return TILEWRIGHT_OK;
}

tilewright_status tilewright_start(tilewright_device *device)
{
    const tilewright_program *program = device->program;
    if (device->state != TILEWRIGHT_LOADED) {
        return TILEWRIGHT_STATE;
    }
    if ((read_word(device, TILEWRIGHT_REGISTER_STATUS) & TILEWRIGHT_STATUS_OPEN) != 0U) {
        return TILEWRIGHT_BUS;
    }
    clean(device, device->arena, program->arena_bytes);
    device->state = TILEWRIGHT_BUSY;
    write_word(device, TILEWRIGHT_REGISTER_CONTROL, TILEWRIGHT_CONTROL_START);
    return TILEWRIGHT_OK;
}

tilewright_status tilewright_poll(tilewright_device *device)
{
    const tilewright_platform *platform = device->platform;
    uint32_t status;
    if (device->state != TILEWRIGHT_BUSY) {
        return TILEWRIGHT_STATE;
    }
    status = read_word(device, TILEWRIGHT_REGISTER_STATUS);
    if ((status & TILEWRIGHT_STATUS_DONE) == 0U) {
        return TILEWRIGHT_RUNNING;
    }
    device->state = TILEWRIGHT_LOADED;
    if (platform->invalidate != NULL) {
        platform->invalidate(platform->context, device->arena, (size_t)device->program->arena_bytes);
    }
    return (status & TILEWRIGHT_STATUS_FAULT) != 0U ? TILEWRIGHT_FAULT : TILEWRIGHT_OK;
}

tilewright_status tilewright_wait(tilewright_device *device, uint32_t polls)
{
    uint32_t poll;
    for (poll = 0; poll < polls; poll++) {
        tilewright_status status = tilewright_poll(device);
        if (status != TILEWRIGHT_RUNNING) {
            return status;
        }
        if (device->platform->pause != NULL) {
            device->platform->pause(device->platform->context);
        }
    }
    return TILEWRIGHT_TIME;
}

tilewright_status tilewright_infer(tilewright_device *device, uint32_t polls)
{
    tilewright_status status = tilewright_start(device);
    return status == TILEWRIGHT_OK ? tilewright_wait(device, polls) : status;
}

tilewright_status tilewright_stop(tilewright_device *device, uint32_t polls)
{
    tilewright_status status;
    if (device->state != TILEWRIGHT_BUSY) {
        return TILEWRIGHT_STATE;
    }
    write_word(device, TILEWRIGHT_REGISTER_CONTROL, TILEWRIGHT_CONTROL_STOP);
    status = tilewright_wait(device, polls);
    return status == TILEWRIGHT_FAULT ? TILEWRIGHT_OK : status;
}

tilewright_status tilewright_reset(tilewright_device *device)
{
    if (device->state == TILEWRIGHT_CLOSED) {
        return TILEWRIGHT_STATE;
    }
    write_word(device, TILEWRIGHT_REGISTER_CONTROL, TILEWRIGHT_CONTROL_RESET);
    device->program = NULL;
    device->arena = NULL;
    device->state = TILEWRIGHT_OPEN;
    return TILEWRIGHT_OK;
}

tilewright_status tilewright_set_watchdog(tilewright_device *device, uint32_t cycles)
{
    if (device->state != TILEWRIGHT_OPEN && device->state != TILEWRIGHT_LOADED) {
        return TILEWRIGHT_STATE;
    }
    write_word(device, TILEWRIGHT_REGISTER_WATCHDOG, cycles);
    return TILEWRIGHT_OK;
}

tilewright_status tilewright_enable_interrupt(tilewright_device *device, int is_enabled)
{
    if (device->state == TILEWRIGHT_CLOSED) {
        return TILEWRIGHT_STATE;
    }
    write_word(device, TILEWRIGHT_REGISTER_INTERRUPT_ENABLE, is_enabled != 0 ? TILEWRIGHT_INTERRUPT_ENABLE_DONE : 0U);
    return TILEWRIGHT_OK;
}

int tilewright_acknowledge(const tilewright_device *device)
{
    uint32_t pending = read_word(device, TILEWRIGHT_REGISTER_INTERRUPT_PENDING);
    write_word(device, TILEWRIGHT_REGISTER_INTERRUPT_PENDING, pending);
    return pending != 0U;
}

uint32_t tilewright_version(const tilewright_device *device)
{
    return read_word(device, TILEWRIGHT_REGISTER_VERSION);
}

tilewright_status tilewright_read_fault(const tilewright_device *device, tilewright_fault *fault)
{
    uint32_t layer;
    if (device->state != TILEWRIGHT_LOADED) {
        return TILEWRIGHT_STATE;
    }
    fault->code = read_word(device, TILEWRIGHT_REGISTER_FAULT_CODE);
    fault->instruction = read_word(device, TILEWRIGHT_REGISTER_FAULT_INSTRUCTION);
    fault->address = (int64_t)tilewright_read64(device, TILEWRIGHT_REGISTER_FAULT_ADDRESS);
    fault->about = fault->code < TILEWRIGHT_FAULTS ? tilewright_fault_text[fault->code] : "unknown";
    fault->layer = "";
    for (layer = 0; layer < device->program->layer_count; layer++) {
        if (fault->instruction < device->program->layer_ends[layer]) {
            fault->layer = device->program->layers[layer];
            break;
        }
    }
    return TILEWRIGHT_OK;
}

const char *tilewright_status_name(tilewright_status status)
{
    static const char *const names[] = {
        "ok", "no machine answers", "the program is for another machine", "a region is not aligned",
        "the call does not fit the device's state", "still running", "the machine reports a fault", "it took too long",
        "the bus still owes an answer",
    };
    return (size_t)status < sizeof names / sizeof names[0] ? names[status] : "unknown";
}

const char *tilewright_state_name(tilewright_state state)
{
    static const char *const names[] = {"closed", "open", "loaded", "running"};
    return (size_t)state < sizeof names / sizeof names[0] ? names[state] : "unknown";
}

static ONCE uint64_t aligned(uint64_t bytes)
{
    return (bytes + TILEWRIGHT_REGION_ALIGNMENT - 1U) / TILEWRIGHT_REGION_ALIGNMENT * TILEWRIGHT_REGION_ALIGNMENT;
}

uint64_t tilewright_constant_bytes(const tilewright_program *program)
{
    return aligned(program->bytes[TILEWRIGHT_REGION_PROGRAM]) + aligned(program->bytes[TILEWRIGHT_REGION_WEIGHTS]);
}

static ONCE void copy(uint8_t *to, const uint8_t *from, size_t bytes)
{
    size_t place;
    for (place = 0; place < bytes; place++) {
        to[place] = from[place];
    }
}

void tilewright_place(const tilewright_program *program, void *memory, tilewright_program *placed)
{
    uint8_t *text = (uint8_t *)memory;
    uint8_t *weights = text + aligned(program->bytes[TILEWRIGHT_REGION_PROGRAM]);
    copy(text, program->text, (size_t)program->bytes[TILEWRIGHT_REGION_PROGRAM]);
    copy(weights, program->weights, (size_t)program->bytes[TILEWRIGHT_REGION_WEIGHTS]);
    *placed = *program;
    placed->text = text;
    placed->weights = weights;
}

/* -- arrays -------------------------------------------------------------------------------------------------------- */

static size_t blocks_of(const tilewright_layout *layout)
{
    return (layout->stored[1] + layout->lanes - 1U) / layout->lanes;
}

size_t tilewright_places(const tilewright_layout *layout)
{
    return (size_t)layout->stored[0] * blocks_of(layout) * layout->stored[2] * layout->stored[3] * layout->lanes;
}

/* The number of an element of the stored order, images and channels and rows and columns, as the array has it. */
static size_t in_array(const tilewright_layout *layout, size_t number)
{
    size_t element = 0;
    uint32_t axis;
    for (axis = layout->rank; axis > 0U; axis--) {
        element += number % layout->sizes[axis - 1U] * layout->strides[axis - 1U];
        number /= layout->sizes[axis - 1U];
    }
    return element;
}

size_t tilewright_element(const tilewright_layout *layout, size_t place)
{
    const uint32_t *windows = layout->windows;
    size_t lane = place % layout->lanes;
    size_t column = place / layout->lanes % layout->stored[3];
    size_t row = place / layout->lanes / layout->stored[3] % layout->stored[2];
    size_t block = place / layout->lanes / layout->stored[3] / layout->stored[2];
    size_t image = block / blocks_of(layout);
    size_t channel = block % blocks_of(layout) * layout->lanes + lane;
    size_t channels = layout->stored[1], rows = layout->stored[2], columns = layout->stored[3];
    if (channel >= channels) {
        return TILEWRIGHT_NO_ELEMENT;
    }
    if (windows != NULL) {
        size_t tap = channel / windows[0];
        row = row * windows[6] + tap % windows[5];
        column = column * windows[7] + tap / windows[5];
        channel %= windows[0];
        if (row < windows[3] || column < windows[4]) {
            return TILEWRIGHT_NO_ELEMENT;
        }
        row -= windows[3];
        column -= windows[4];
        channels = windows[0];
        rows = windows[1];
        columns = windows[2];
        if (row >= rows || column >= columns) {
            return TILEWRIGHT_NO_ELEMENT;
        }
    }
    return in_array(layout, ((image * channels + channel) * rows + row) * columns + column);
}

int32_t tilewright_quantize(float real, float scale, int32_t zero_point, int32_t low, int32_t high)
{
    float scaled = real / scale, rest;
    int32_t whole;
    if (!(scaled > (float)low - (float)zero_point)) {
        return low;
    }
    if (scaled >= (float)high - (float)zero_point) {
        return high;
    }
    whole = (int32_t)scaled;
    rest = scaled - (float)whole;
    if (rest > 0.5F || (rest == 0.5F && whole % 2 != 0)) {
        whole++;
    } else if (rest < -0.5F || (rest == -0.5F && whole % 2 != 0)) {
        whole--;
    }
    return whole + zero_point;
}
