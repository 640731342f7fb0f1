// The harness, the operations element by element, and memory.
#include "conformance.h"

#include <cmath>
#include <cstring>

#include "catch.h"
#include "device/reference/reference_device.h"

namespace coterie::test {

std::string name_of(Data data) {
    const char* names[] = {"normal", "outliers", "zeros", "small"};
    return names[int(data)];
}

void Conformance::hold(const std::string& what, double bound, const std::function<double()>& distance) {
    ++tried;
    try {
        const double found = distance();
        if (!(found <= bound))
            failures.push_back(
                fmt::format("{}, {}: error {:.3g}, allowed {:.3g}", device.name(), what, found, bound));
    } catch (const Failure& failure) {
        failures.push_back(fmt::format("{}, {}: {}", device.name(), what, failure.message()));
    }
}

void Conformance::compare(const std::string& what, double bound, const Work& work) {
    hold(what, bound, [&] {
        ReferenceDevice reference;
        Bench truth(reference), own(device);
        const Floats expected = work(truth);
        return nmse(work(own), expected);
    });
}

void Conformance::agree(const std::string& what, double bound, const Work& fused, const Work& body) {
    hold(what + " against its body", bound, [&] {
        Bench one(device), two(device);
        const Floats expected = body(one);
        return nmse(fused(two), expected);
    });
}

void Conformance::require(const std::string& what, bool holds) {
    hold(what, 0, [&] { return holds ? 0.0 : 1.0; });
}

void Conformance::elements() {
    const std::pair<int64_t, int64_t> shapes[] = {{1, 1}, {3, 7}, {2, 128}, {5, 2051}, {70, 64}};
    for (const auto& [rows, width] : shapes)
        for (const Data data : all_data)
            for (const int64_t gap : {0, 8}) {
                const int64_t r = rows, w = width;
                const auto in = [=](Bench& b, uint64_t seed, int64_t of_width) {
                    Random random(seed);
                    return b.rows(numbers(random, r * of_width, data, 3), r, of_width, gap);
                };
                const auto name = [&](const char* operation) {
                    return fmt::format("{} {} x {} + {}, {}", operation, r, w, gap, name_of(data));
                };
                for (const bool gain : {false, true})
                    compare(name("rms_norm"), bounds.elements, [&](Bench& b) {
                        const Rows x = in(b, 1, w), y = gain ? x : b.blank(r, w, gap);
                        Random random(2);
                        b.device.rms_norm(y, x, gain ? b.put(numbers(random, w)) : nullptr, 1e-6f);
                        return b.read(y);
                    });
                const auto in_place = [&](const char* operation,
                                          const std::function<void(Bench&, Rows)>& call) {
                    compare(name(operation), bounds.elements, [&](Bench& b) {
                        const Rows x = in(b, 3, w);
                        call(b, x);
                        return b.read(x);
                    });
                };
                in_place("l2_norm", [&](Bench& b, Rows x) { b.device.l2_norm(x, 1, 1e-6f); });
                if (w % 4 == 0)
                    in_place("l2_norm of 4", [&](Bench& b, Rows x) { b.device.l2_norm(x, 4, 1e-6f); });
                in_place("add", [&](Bench& b, Rows x) { b.device.add(x, in(b, 4, w)); });
                compare(name("softcap"), bounds.softcap, [&](Bench& b) {
                    const Rows x = in(b, 3, w);
                    b.device.softcap(x, 4.0f);
                    return b.read(x);
                });
                in_place("sigmoid_gate", [&](Bench& b, Rows x) { b.device.sigmoid_gate(x, in(b, 5, w)); });
                in_place("sigmoid_gate by row",
                         [&](Bench& b, Rows x) { b.device.sigmoid_gate(x, in(b, 6, 1)); });
                for (const Activation a :
                     {Activation::silu, Activation::gelu_tanh, Activation::clamped_swiglu}) {
                    in_place("activate the gate",
                             [&](Bench& b, Rows x) { b.device.activate(x, x, in(b, 7, w), a); });
                    in_place("activate the up",
                             [&](Bench& b, Rows x) { b.device.activate(x, in(b, 8, w), x, a); });
                }
                for (const bool of_body : {false, true})
                    compare(name("add_rms_norm"), bounds.elements, [&](Bench& b) {
                        Random random(9);
                        const Rows x = in(b, 10, w), h = b.blank(r, w, gap);
                        const float* gain = b.put(numbers(random, w));
                        if (of_body)
                            b.device.Device::add_rms_norm(x, in(b, 11, w), h, gain, 1e-5f);
                        else
                            b.device.add_rms_norm(x, in(b, 11, w), h, gain, 1e-5f);
                        Floats both = b.read(x), normed = b.read(h);
                        both.insert(both.end(), normed.begin(), normed.end());
                        return both;
                    });
            }
    compare("functions of very large and small numbers", bounds.elements, [](Bench& b) {
        const Floats extreme{-1e30f, -1000, -100, -89, -30, -1e-30f, 0, 1e-30f, 30, 89, 100, 1000};
        const Rows ones = b.rows(Floats(extreme.size(), 1.0f), 1, int64_t(extreme.size()));
        Floats all;
        for (const Activation a : {Activation::silu, Activation::gelu_tanh, Activation::clamped_swiglu}) {
            const Rows y = b.blank(1, ones.width);
            b.device.activate(y, b.rows(extreme, 1, ones.width), ones, a);
            const Floats found = b.read(y);
            // Compared one by one, as the large would hide the small.
            for (const float f : found)
                all.push_back(float(std::copysign(std::log1p(std::fabs(double(f))), f)));
        }
        b.device.sigmoid_gate(ones, b.rows(extreme, 1, ones.width));
        const Floats gated = b.read(ones);
        all.insert(all.end(), gated.begin(), gated.end());
        return all;
    });
    compare("select_rows", 0, [](Bench& b) {
        Random random(12);
        const Rows x = b.rows(numbers(random, 9 * 33), 9, 33, 3), y = b.blank(3, 33, 1);
        Step step = step_of({{0, 3, 4}, {1, 0, 5}}, 2);
        step.outputs = {0, 3, 8};
        b.device.begin(step);
        b.device.select_rows(y, x, step);
        return b.read(y);
    });
    compare("select no rows", 0, [](Bench& b) {
        Step step = step_of({{0, 3, 4}});
        step.outputs.clear();
        b.device.begin(step);
        b.device.select_rows(Rows(b.blank(1, 5).data, 0, 5), b.blank(4, 5), step);
        return Floats{};
    });
}

void Conformance::memory() {
    compare("memory is zeroed, and offsets into it work", 0, [](Bench& b) {
        const auto buffer = b.device.allocate(1000);
        Floats x(10, 7.0f), all(250);
        auto* data = static_cast<float*>(buffer->data());
        b.device.write(data + 100, x.data(), 40);
        b.device.read(all.data(), data, 1000);
        Floats tail(5);
        b.device.read(tail.data(), data + 107, 20);
        all.insert(all.end(), tail.begin(), tail.end());
        return all;
    });
    require("an allocation of nothing", device.allocate(0) != nullptr);
    Status status = Status::ok;
    try {
        (void)device.allocate(uint64_t(1) << 60);
    } catch (const Failure& failure) {
        status = failure.status();
    }
    require("an exabyte is out of memory", status == Status::out_of_memory);
    require("a name and a description", !device.name().empty() && !device.description().empty());
    const TestWeight good(Type::Q8_0, 64, 3);
    WeightSource cut = good.source;
    cut.columns = {{0, 48}};
    std::string why;
    require("Q8_0 is supported", device.supports(good.source, &why));
    require("a cut inside a block is refused, with a reason", !device.supports(cut, &why) && !why.empty());
    require("what is not supported is not prepared", !message_of([&] { device.prepare(cut); }).empty());
    // replay() with the same key and new contents.
    compare("replay", bounds.elements, [](Bench& b) {
        Random random(1);
        const Floats values = numbers(random, 101 * 8);
        const auto table = b.weight(values, 8, 101, 1, true);
        const Rows y = b.blank(4, 8);
        Floats all;
        Step step = step_of({{0, 0, 4}});
        for (const int32_t token : {3, 50, 7}) {
            step.tokens = {token, token + 1, 0, 100};
            b.device.begin(step);
            b.device.replay(42, [&] { b.device.embed(y, *table, step, 1.5f, 0); });
            const Floats found = b.read(y);
            all.insert(all.end(), found.begin(), found.end());
        }
        b.device.wait();
        return all;
    });
}

void conform(Device& device, const Bounds& bounds) {
    Conformance c(device, bounds);
    c.memory();
    c.elements();
    c.products();
    c.routing();
    c.ranking();
    c.experts();
    c.rope();
    c.attention();
    c.convolution();
    c.delta();
    for (const std::string& failure : c.failures) FAIL_CHECK(failure);
    CHECK(c.tried > 1500);
}

}  // namespace coterie::test
