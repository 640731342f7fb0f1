#include "execute/orders.h"

#include <cstring>

#include "base/failure.h"
#include "execute/runner.h"

namespace coterie {
namespace {

class Writer {
  public:
    template <typename T>
    void number(const T& value) {
        const auto* bytes = reinterpret_cast<const std::byte*>(&value);
        out.insert(out.end(), bytes, bytes + sizeof value);
    }
    template <typename T>
    void list(const std::vector<T>& values) {
        number(uint64_t(values.size()));
        const auto bytes = std::as_bytes(std::span(values));
        out.insert(out.end(), bytes.begin(), bytes.end());
    }
    std::vector<std::byte> out;
};

class Reader {
  public:
    explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
    template <typename T>
    T number() {
        T value;
        std::memcpy(&value, take(sizeof value).data(), sizeof value);
        return value;
    }
    template <typename T>
    void list(std::vector<T>& values) {
        const uint64_t count = number<uint64_t>();
        COTERIE_CHECK(count <= bytes_.size() / sizeof(T));
        values.resize(size_t(count));
        const auto bytes = take(size_t(count) * sizeof(T));
        if (count > 0) std::memcpy(values.data(), bytes.data(), bytes.size());
    }

  private:
    std::span<const std::byte> take(size_t count) {
        COTERIE_CHECK(count <= bytes_.size());
        const auto taken = bytes_.first(count);
        bytes_ = bytes_.subspan(count);
        return taken;
    }
    std::span<const std::byte> bytes_;
};

}  // namespace

std::vector<std::byte> pack(const Order& order) {
    Writer w;
    w.number(order.kind);
    w.number(order.from);
    w.number(order.to);
    if (const Step* step = order.step) {
        w.list(step->tokens);
        w.list(step->positions);
        w.list(step->span_of);
        w.list(step->spans);
        w.list(step->outputs);
        w.list(step->pages);
        w.number(step->pages_per_sequence);
        w.number(step->page_tokens);
    }
    return std::move(w.out);
}

Order::Kind kind_of(std::span<const std::byte> order) {
    COTERIE_CHECK(!order.empty());
    return Order::Kind(order[0]);
}

void carry_out(Runner& runner, std::span<const std::byte> order) {
    Reader r(order);
    const auto kind = r.number<Order::Kind>();
    const auto from = r.number<int32_t>(), to = r.number<int32_t>();
    switch (kind) {
        case Order::Kind::copy_page:
            return runner.copy_page(from, to);
        case Order::Kind::clear_state:
            return runner.clear_state(to);
        case Order::Kind::copy_state:
            return runner.copy_state(from, to);
        default:
            break;
    }
    Step step;
    r.list(step.tokens);
    r.list(step.positions);
    r.list(step.span_of);
    r.list(step.spans);
    r.list(step.outputs);
    r.list(step.pages);
    step.pages_per_sequence = r.number<int32_t>();
    step.page_tokens = r.number<int32_t>();
    if (kind == Order::Kind::read)
        return runner.read(step, from != 0, [](int64_t, std::span<const float>) {});
    COTERIE_CHECK(kind == Order::Kind::run);
    runner.run(step, {});  // the logits are the first process's
}

}  // namespace coterie
