// What the runner of the first process does, as bytes for the runners of the others, who do the same.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "device/step.h"

namespace coterie {

class Runner;

struct Order {
    enum class Kind : uint8_t { create = 1, destroy, run, read, copy_page, clear_state, copy_state };
    Kind kind = Kind::destroy;
    int32_t from = 0, to = 0;  // pages or slots; of read: 1 for hidden states
    const Step* step = nullptr;
};

std::vector<std::byte> pack(const Order& order);
Order::Kind kind_of(std::span<const std::byte> order);
// Does what the order says, but for create and destroy. Throws what the runner throws.
void carry_out(Runner& runner, std::span<const std::byte> order);

}  // namespace coterie
