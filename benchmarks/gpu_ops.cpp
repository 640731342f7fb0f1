// Every kernel of the CUDA device at the shapes of Qwen3-30B-A3B and Qwen3.5-35B-A3B: first its result
// against the reference device, then its speed, as GB/s and share of the copy bandwidth measured beside it,
// or as TMAC/s of products.
//   gpu_ops [--device N] [--write FOLDER] [--quick]
// --write saves the table as FOLDER/<gpu>.md; --quick runs everything once, for trying the program itself.
// Needs the plug-in (libcoterie_cuda.so) and a GPU, not NVIDIA's toolkit. Tokens per second: coterie bench.
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <optional>

#include "../tests/device/workbench.h"
#include "device/cuda_backend.h"
#include "device/reference/reference_device.h"

using namespace coterie;
using namespace coterie::test;

namespace {

bool quick = false;

double seconds_of(Device& device, const std::function<void()>& call) {
    using Clock = std::chrono::steady_clock;
    for (int i = 0; i < (quick ? 1 : 3); ++i) call();
    device.wait();
    for (int64_t n = 1;; n *= 4) {
        const auto begin = Clock::now();
        for (int64_t i = 0; i < n; ++i) call();
        device.wait();
        const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
        if (seconds > 0.2 || quick) return seconds / double(n);
    }
}

struct Line {
    std::string what;
    double error = 0, bound = 0;
    double seconds = 0, bytes = 0, products = 0;
};

// One operation on any device: made once with all it needs, then called again and again.
struct Operation {
    std::function<void()> call;
    std::function<Floats()> result;
    double bytes = 0, products = 0;  // of a call
};
// small: as little as shows whether it is right, in the same kernel.
using Maker = std::function<Operation(Bench&, bool small)>;

Line measure(Device& device, const std::string& what, double bound, const Maker& make) {
    Line line;
    line.what = what;
    line.bound = bound;
    {
        ReferenceDevice reference;
        Bench truth(reference), own(device);
        const Operation expected = make(truth, true), found = make(own, true);
        expected.call(), found.call();
        line.error = nmse(found.result(), expected.result());
    }
    Bench bench(device);
    const Operation operation = make(bench, quick);
    line.seconds = seconds_of(device, operation.call);
    line.bytes = operation.bytes;
    line.products = operation.products;
    return line;
}

Rows random_rows(Bench& b, uint64_t seed, int64_t rows, int64_t width) {
    Random random(seed);
    return b.rows(numbers(random, rows * width), rows, width);
}

// Weights in turn, more than any cache holds.
Maker linear(Type type, int64_t in, int64_t out, int64_t rows) {
    return [=](Bench& b, bool small) {
        const int64_t outputs = small ? 64 : out;
        const TestWeight matrix(type, in, outputs);
        const int64_t copies =
            small ? 1 : std::clamp<int64_t>((int64_t(384) << 20) / int64_t(matrix.bytes.size()), 2, 64);
        auto weights = std::make_shared<std::vector<std::unique_ptr<Weight>>>();
        for (int64_t i = 0; i < copies; ++i) weights->push_back(b.device.prepare(matrix.source));
        const Rows x = random_rows(b, 1, rows, in), y = b.blank(rows, outputs);
        Operation o;
        o.call = [&b, weights, x, y, at = size_t(0)]() mutable {
            b.device.linear(y, *(*weights)[at++ % weights->size()], x, nullptr);
        };
        o.result = [&b, y] { return b.read(y); };
        o.bytes = double(weights->front()->bytes());
        o.products = double(in) * double(outputs) * double(rows);
        return o;
    };
}

Maker experts(int64_t rows) {
    return [=](Bench& b, bool small) {
        const int64_t width = 2048, inner = small ? 256 : 768;
        const int32_t used = 8, count = small ? 16 : 128;
        struct Held {
            std::unique_ptr<Weight> gate, up, down;
        };
        auto held = std::make_shared<Held>();
        held->gate = b.device.prepare(TestWeight(Type::Q4_K, width, inner, count, 1).source);
        held->up = b.device.prepare(TestWeight(Type::Q4_K, width, inner, count, 2).source);
        held->down = b.device.prepare(TestWeight(Type::Q6_K, inner, width, count, 3).source);
        Random random(4);
        auto chosen = std::make_shared<std::vector<Routing>>();
        double distinct = 0;
        for (int step = 0; step < (small ? 1 : 16); ++step) {
            std::vector<int32_t> all;
            std::vector<bool> seen(size_t(count), false);
            for (int64_t r = 0; r < rows; ++r)
                for (int32_t j = 0; j < used; ++j) {
                    all.push_back(j * (count / used) + random.below(count / used));
                    seen[size_t(all.back())] = true;
                }
            distinct += double(std::count(seen.begin(), seen.end(), true)) / (small ? 1 : 16);
            chosen->push_back(b.routing(all, Floats(all.size(), 0.125f), used));
        }
        const Rows x = random_rows(b, 5, rows, width), y = b.blank(rows, width),
                   e = b.blank(rows * used, inner), other = b.blank(rows * used, inner),
                   outs = b.blank(rows * used, width);
        Operation o;
        o.call = [=, &b, at = size_t(0)]() mutable {
            const Routing& routing = (*chosen)[at++ % chosen->size()];
            b.device.expert_gate_up(e, {held->gate.get(), nullptr, 0}, {held->up.get(), nullptr, 0}, x,
                                    routing, Activation::silu, other);
            b.device.expert_down_combine(y, {held->down.get(), nullptr, 0}, e, routing, outs);
        };
        o.result = [&b, y] { return b.read(y); };
        o.bytes = distinct / count * double(held->gate->bytes() + held->up->bytes() + held->down->bytes());
        o.products = 3.0 * double(width * inner * used * rows);
        return o;
    };
}

Maker attention(int32_t rows, int32_t keys) {
    return [=](Bench& b, bool small) {
        const int32_t heads = 32, kv_heads = 4, dim = 128, context = small ? 300 : keys;
        CacheShape shape;
        shape.layers = {{kv_heads, dim, dim}};
        shape.page_tokens = 64;
        shape.pages = (context + 63) / 64 + 2;
        struct Held {
            std::unique_ptr<Cache> cache;
            Step step;
        };
        auto held = std::make_shared<Held>();
        held->cache = b.device.make_cache(shape);
        for (int32_t at = 0; at < context; at += 512) {
            const Step fill = step_of({{0, at, std::min(512, context - at)}}, 1, shape.pages, 64);
            b.device.begin(fill);
            b.device.store_kv(*held->cache, 0, random_rows(b, uint64_t(at), fill.rows(), kv_heads * dim),
                              random_rows(b, uint64_t(at) + 1, fill.rows(), kv_heads * dim), fill);
        }
        held->step = step_of({{0, context - rows, rows}}, 1, shape.pages, 64);
        b.device.begin(held->step);
        const Rows q = random_rows(b, 2, rows, heads * dim), y = b.blank(rows, heads * dim);
        Attention a;
        a.heads = heads, a.kv_heads = kv_heads, a.key_dim = a.value_dim = dim;
        a.scale = 1 / std::sqrt(float(dim));
        Operation o;
        o.call = [=, &b] { b.device.attend(y, q, *held->cache, 0, a, held->step); };
        o.result = [&b, y] { return b.read(y); };
        o.bytes = double(context) / 64 * double(shape.page_bytes());
        o.products = 2.0 * heads * dim * double(rows) * (double(context) - double(rows) / 2);
        return o;
    };
}

Maker delta(int32_t rows) {
    return [=](Bench& b, bool small) {
        const int32_t keys = small ? 2 : 16, values = small ? 4 : 32, dim = 128;
        struct Held {
            std::unique_ptr<States> states;
            Step step;
        };
        auto held = std::make_shared<Held>();
        StateShape shape;
        shape.layers = {{0, 1, values, dim, dim}};
        shape.slots = 1;
        held->states = b.device.make_states(shape);
        held->step = step_of({{0, 0, rows}}, 1, rows / 4 + 1);
        b.device.begin(held->step);
        const Rows q = random_rows(b, 1, rows, keys * dim), k = random_rows(b, 2, rows, keys * dim),
                   v = random_rows(b, 3, rows, values * dim), y = b.blank(rows, values * dim),
                   decay = b.rows(Floats(size_t(rows * values), -0.2f), rows, values),
                   beta = b.rows(Floats(size_t(rows * values), 0.5f), rows, values);
        b.device.l2_norm(q, keys, 1e-6f);
        b.device.l2_norm(k, keys, 1e-6f);
        Operation o;
        o.call = [=, &b] {
            b.device.delta_rule(y, q, k, v, decay, beta, *held->states, 0,
                                {keys, values, dim, dim, true, 0.09f}, held->step);
        };
        o.result = [&b, y] { return b.read(y); };
        o.bytes = 2.0 * double(shape.slot_bytes()) + 4.0 * double(rows) * double(2 * keys + 2 * values) * dim;
        o.products = 3.0 * double(rows) * values * dim * dim;
        return o;
    };
}

Maker ranking(int64_t width) {
    return [=](Bench& b, bool small) {
        const int64_t n = small ? 5000 : width;
        const Rows x = random_rows(b, 1, 1, n);
        auto best = std::shared_ptr<Buffer>(b.device.allocate(64 * sizeof(Ranked)));
        Operation o;
        o.call = [=, &b] { b.device.rank(static_cast<Ranked*>(best->data()), 64, x); };
        o.result = [=, &b] {
            std::vector<Ranked> found(64);
            b.device.read(found.data(), best->data(), 64 * sizeof(Ranked));
            Floats all;
            for (const Ranked& r : found) all.insert(all.end(), {float(r.index), r.value});
            return all;
        };
        o.bytes = 4.0 * double(n);
        return o;
    };
}

// Bytes per second that the device copies within its memory, reading and writing counted.
double copy_bandwidth(Device& device) {
    StateShape shape;
    shape.layers = {{0, 1, quick ? 4 : 1024, 256, 256}};
    shape.slots = 2;
    const auto states = device.make_states(shape);
    return 2.0 * double(shape.slot_bytes()) / seconds_of(device, [&] { device.copy_state(*states, 0, 1); });
}

int run(int number, const std::string& folder) {
    std::string why;
    CudaBackend* backend = cuda_backend(&why);
    if (!backend) {
        fmt::print("{}\n", why);
        return 77;
    }
    const CudaFacts facts = backend->facts();
    const CudaDeviceFacts* card = nullptr;
    for (const CudaDeviceFacts& d : facts.devices)
        if (d.number == number && d.why_not.empty()) card = &d;
    if (!card) {
        fmt::print("there is no cuda:{} that can be used; `coterie devices` says more\n", number);
        return 77;
    }
    CudaRequest request;
    request.device = number;
    const auto device = backend->open(request);
    const double copy = copy_bandwidth(*device);
    std::string text = fmt::format(
        "# {}\n\n{}; {}; driver {} for CUDA {}, runtime {}. Copies within its memory: {:.0f} GB/s.\n\n"
        "| operation | error (allowed) | time | GB/s | of copying | TMAC/s |\n|---|---|---|---|---|---|\n",
        card->name, device->description(), card->links.empty() ? "links not known" : card->links,
        facts.driver_version, facts.driver, facts.runtime, copy * 1e-9);
    fmt::print("{}", text);
    bool right = true;
    const auto line = [&](const std::string& what, double bound, const Maker& make) {
        const Line l = measure(*device, what, bound, make);
        right = right && l.error <= bound;
        const std::string row = fmt::format(
            "| {} | {:.1e} ({:.0e}){} | {:.1f} us | {:.1f} | {:.0f} % | {:.2f} |\n", l.what, l.error, l.bound,
            l.error <= bound ? "" : " WRONG", l.seconds * 1e6, l.bytes / l.seconds * 1e-9,
            100 * l.bytes / l.seconds / copy, l.products / l.seconds * 1e-12);
        fmt::print("{}", row);
        std::fflush(stdout);
        text += row;
    };
    for (const Type type : {Type::Q4_K, Type::Q6_K, Type::Q8_0, Type::MXFP4, Type::F16})
        for (const int64_t rows : {1, 8, 512})
            line(fmt::format("{} 2048 x 4096, {} rows", type_name(type), rows), 4e-4,
                 linear(type, 2048, 4096, rows));
    for (const int64_t rows : {1, 4, 16, 512})
        line(fmt::format("8 of 128 experts of 768, {} rows", rows), 4e-4, experts(rows));
    for (const int32_t keys : {1024, 16384})
        line(fmt::format("attention, 1 row, {} keys", keys), 1e-6, attention(1, keys));
    line("attention, 256 rows, 4096 keys", 1e-6, attention(256, 4096));
    for (const int32_t rows : {1, 512}) line(fmt::format("delta rule, {} rows", rows), 1e-6, delta(rows));
    line("the 64 best of 151936 logits", 0, ranking(151936));
    if (!folder.empty()) {
        std::string name = card->name;
        for (char& c : name)
            if (!std::isalnum(static_cast<unsigned char>(c))) c = '-';
        std::ofstream(folder + "/" + name + ".md") << text;
    }
    if (!right) fmt::print("an operation is wrong: its numbers count for nothing\n");
    return right ? 0 : 1;
}

}  // namespace

int main(int count, char** words) {
    int device = 0;
    std::string folder;
    for (int i = 1; i < count; ++i) {
        const std::string word = words[i];
        if (word == "--quick") {
            quick = true;
        } else if (word == "--device" && i + 1 < count) {
            device = std::atoi(words[++i]);
        } else if (word == "--write" && i + 1 < count) {
            folder = words[++i];
        } else {
            fmt::print("usage: gpu_ops [--device N] [--write FOLDER] [--quick]\n");
            return 2;
        }
    }
    try {
        return run(device, folder);
    } catch (const std::exception& failure) {
        fmt::print("{}\n", failure.what());
        return 1;
    }
}
