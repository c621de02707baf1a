// What the boards have of a processor's memory: places in it, and their addresses on the bus.
//
// Included where `memory`, `used` and `start` are.

uint64_t board_bus_address(void*, const void* place) {
    return static_cast<uint64_t>(static_cast<const uint8_t*>(place) - memory);
}

void* board_memory(uint64_t bytes) {
    start();
    uint64_t pages = (bytes + PAGE - 1) / PAGE * PAGE;
    if (pages > MEMORY_BYTES - used) return nullptr;
    used += pages;
    return memory + used - pages;
}
