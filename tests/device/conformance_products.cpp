// Products with weights of every type, look-ups, routing and experts.
#include <cmath>

#include "catch.h"
#include "conformance.h"
#include "quant/decode.h"

namespace coterie::test {

namespace {

constexpr Type all_types[] = {Type::F32,     Type::F16,   Type::BF16,    Type::Q4_0,  Type::Q4_1,
                              Type::Q5_0,    Type::Q5_1,  Type::Q8_0,    Type::Q2_K,  Type::Q3_K,
                              Type::Q4_K,    Type::Q5_K,  Type::Q6_K,    Type::MXFP4, Type::IQ4_NL,
                              Type::IQ4_XS,  Type::IQ3_S, Type::IQ3_XXS, Type::IQ2_S, Type::IQ2_XS,
                              Type::IQ2_XXS, Type::IQ1_S, Type::IQ1_M,   Type::TQ1_0, Type::TQ2_0};
// Those whose layouts differ enough to be tried with everything.
constexpr Type main_types[] = {Type::F32,  Type::F16,  Type::Q8_0, Type::Q5_0,
                               Type::Q4_K, Type::Q6_K, Type::MXFP4};

Rows random_rows(Bench& b, uint64_t seed, int64_t rows, int64_t width, Data data = Data::normal,
                 int64_t gap = 0) {
    Random random(seed);
    return b.rows(numbers(random, rows * width, data), rows, width, gap);
}

float* random_floats(Bench& b, uint64_t seed, int64_t n) {
    Random random(seed);
    return b.put(numbers(random, n));
}

}  // namespace

void Conformance::products() {
    const auto bound = [&](Type type, Data data = Data::normal) {
        if (!traits(type).quantised) return bounds.products;
        return data == Data::outliers ? bounds.outliers : bounds.quantised;
    };
    const auto product = [](const WeightSource& source, int64_t rows, Data data, bool bias, int64_t gap) {
        return [=, &source](Bench& b) {
            const auto weight = b.device.prepare(source);
            const Rows y = b.blank(rows, source.out(), gap);
            b.device.linear(y, *weight, random_rows(b, 3, rows, source.in(), data, gap),
                            bias ? random_floats(b, 4, source.out()) : nullptr);
            return b.read(y);
        };
    };
    const auto lookup = [](const WeightSource& source, int64_t first) {
        return [=, &source](Bench& b) {
            const auto table = b.device.prepare(source);
            Step step = step_of({{0, 0, 5}});
            const int32_t last = int32_t(first + source.out()) - 1;
            step.tokens = {int32_t(first), last, int32_t(first) - 1, last + 1, int32_t(first) + 1};
            const Rows y = b.blank(5, source.in(), 4);
            b.device.begin(step);
            b.device.embed(y, *table, step, 1.25f, first);
            return b.read(y);
        };
    };
    for (const Type type : all_types) {
        const int64_t block = traits(type).block_elements;
        TestWeight weight(type, 3 * std::max<int64_t>(block, 32), 37);
        std::string why;
        if (!device.supports(weight.source, &why)) {
            WARN(device.name() << " does not take " << type_name(type) << ": " << why);
            continue;
        }
        for (const int64_t rows : {1, 2, 6, 35})
            for (const Data data : all_data)
                compare(fmt::format("linear {}, {} rows, {}", weight.source.name, rows, name_of(data)),
                        bound(type, data), product(weight.source, rows, data, rows == 2, rows == 6 ? 16 : 0));
        // A shard: rows permuted and skipped, columns from inside a block of 256 to inside another.
        WeightSource shard = weight.source;
        shard.rows = {{20, 37}, {0, 5}};
        shard.columns = {{32, 64}, {weight.source.file_in - 32, weight.source.file_in}};
        compare("linear, a shard of " + shard.name, bound(type), product(shard, 3, Data::normal, true, 0));
        shard.columns = {{0, weight.source.file_in}};
        shard.gather = true;
        compare("embed " + shard.name, bounds.elements, lookup(shard, 1000));
    }
    // Widths that real models have, and odd ones.
    for (const Type type : main_types) {
        const int64_t block = traits(type).block_elements;
        for (const auto& [in, out] : {std::pair<int64_t, int64_t>{1, 1},
                                      {7, 3},
                                      {33, 50},
                                      {64, 16},
                                      {640, 129},
                                      {768, 64},
                                      {2048, 48},
                                      {2880, 20}}) {
            if (in % block) continue;
            const TestWeight weight(type, in, out, 1, 5);
            if (!device.supports(weight.source, nullptr)) continue;
            for (const int64_t rows : {1, 9})
                compare(fmt::format("linear {}, {} rows", weight.source.name, rows), bound(type),
                        product(weight.source, rows, Data::normal, false, 0));
        }
    }
    for (const Type type : main_types) {
        const TestWeight first(type, 512, 40, 1, 6), second(type, 512, 72, 1, 7);
        if (!device.supports(first.source, nullptr)) continue;
        for (const int64_t rows : {1, 4, 33}) {
            const auto many = [&](bool of_body) {
                return [&, of_body](Bench& b) {
                    const auto one = b.device.prepare(first.source), two = b.device.prepare(second.source);
                    const Rows x = random_rows(b, 8, rows, 512);
                    const Projection projections[] = {{b.blank(rows, 40), one.get(), random_floats(b, 9, 40)},
                                                      {b.blank(rows, 72), two.get(), nullptr}};
                    if (of_body)
                        b.device.Device::linear_many(projections, x);
                    else
                        b.device.linear_many(projections, x);
                    Floats all = b.read(projections[0].y), more = b.read(projections[1].y);
                    all.insert(all.end(), more.begin(), more.end());
                    return all;
                };
            };
            const auto gated = [&](Activation activation, bool of_body) {
                return [&, activation, of_body](Bench& b) {
                    const auto gate = b.device.prepare(second.source);
                    const TestWeight other(type, 512, 72, 1, 10);
                    const auto up = b.device.prepare(other.source);
                    const Rows y = b.blank(rows, 72), scratch = b.blank(rows, 72),
                               x = random_rows(b, 8, rows, 512);
                    if (of_body)
                        b.device.Device::gate_up(y, *gate, *up, x, activation, scratch);
                    else
                        b.device.gate_up(y, *gate, *up, x, activation, scratch);
                    return b.read(y);
                };
            };
            const std::string name = fmt::format("{}, {} rows", type_name(type), rows);
            compare("linear_many " + name, bound(type), many(false));
            agree("linear_many " + name, bounds.fused_products, many(false), many(true));
            for (const Activation activation : {Activation::silu, Activation::gelu_tanh}) {
                compare("gate_up " + name, 4 * bound(type), gated(activation, false));
                agree("gate_up " + name, bounds.fused_products, gated(activation, false),
                      gated(activation, true));
            }
        }
    }
}

void Conformance::routing() {
    using Gating = Router::Gating;
    struct Size {
        int32_t experts, used;
    };
    const Size sizes[] = {{1, 1}, {8, 2}, {33, 5}, {128, 8}, {256, 8}, {512, 10}};
    for (const Size& size : sizes)
        for (const Gating gating :
             {Gating::softmax, Gating::sigmoid, Gating::selected_softmax, Gating::sqrt_softplus})
            for (const bool bias : {false, true})
                for (const int32_t groups : {1, 4}) {
                    const int32_t experts = size.experts, used = size.used;
                    if (experts % groups || experts / groups < used) continue;
                    Router router;
                    router.experts = experts, router.used = used, router.gating = gating;
                    router.groups = groups, router.groups_used = groups == 1 ? 1 : 2;
                    router.normalise = bias == (groups == 1), router.scale = bias ? 2.5f : 1.0f;
                    const auto chosen = [&](bool equal) {
                        return [&, equal](Bench& b) {
                            Router own = router;
                            Random random(uint64_t(experts) + 17);
                            const int64_t rows = 21;
                            // Logits 1/32 apart in random order: no near ties. Or few values: ties
                            // everywhere.
                            Floats logits;
                            for (int64_t r = 0; r < rows; ++r) {
                                Floats row;
                                for (int32_t e = 0; e < experts; ++e)
                                    row.push_back(equal ? float(random.below(r % 3 ? 4 : 1))
                                                        : float(e) / 32 - 3);
                                if (!equal)
                                    for (int32_t e = experts - 1; e > 0; --e)
                                        std::swap(row[size_t(e)], row[size_t(random.below(e + 1))]);
                                logits.insert(logits.end(), row.begin(), row.end());
                            }
                            Floats biases;  // exact beside any score
                            for (int32_t e = 0; e < experts; ++e)
                                biases.push_back(equal ? 0.5f : float(random.below(64)) / 64);
                            if (bias) own.selection_bias = b.put(biases);
                            const Routing routing = b.routing(rows, used);
                            b.device.choose_experts(routing, b.rows(logits, rows, experts, equal ? 3 : 0),
                                                    own);
                            Floats all = b.read(Rows(routing.weights, rows, used));
                            // Numbers of experts so large that one wrong choice breaks every bound.
                            for (const int32_t e : b.read(routing.experts, rows * used))
                                all.push_back(float(e) * 1e4f);
                            return all;
                        };
                    };
                    const std::string name =
                        fmt::format("choose_experts {} of {}, gating {}, bias {}, groups {}", used, experts,
                                    int(gating), bias, groups);
                    compare(name, bounds.elements, chosen(false));
                    compare(name + ", equal scores", bounds.elements, chosen(true));
                }
}

// The order that a stable sort gives, number for number: of random logits, of few different ones, with NaN,
// both zeros and both infinities among them.
void Conformance::ranking() {
    for (const int64_t width : {1, 31, 2048, 2049, 5000, 40000})
        for (const int32_t count : {1, 40, 256}) {
            const int64_t rows = width > 5000 ? 2 : 3;
            Random random(uint64_t(width) + uint64_t(count));
            Floats x = numbers(random, rows * width);
            for (int64_t i = width; i < 2 * width; ++i) x[size_t(i)] = float(random.below(3)) - 1.0f;
            const float odd[] = {NAN, -INFINITY, INFINITY, 0.0f, -0.0f, -NAN, 1e-42f, -1e-42f};
            for (int64_t i = width; i < 2 * width; i += 1 + width / 50) x[size_t(i)] = odd[random.below(8)];
            if (width == 31) std::fill_n(x.begin() + 2 * width + 5, 20, NAN);
            Bench b(device);
            const Rows on_device = b.rows(x, rows, width, 5);
            auto buffer = device.allocate(uint64_t(rows * count) * sizeof(Ranked));
            device.rank(static_cast<Ranked*>(buffer->data()), count, on_device);
            std::vector<Ranked> found(size_t(rows * count));
            device.read(found.data(), buffer->data(), found.size() * sizeof(Ranked));
            bool right = true;
            for (int64_t r = 0; r < rows; ++r) {
                const float* row = x.data() + r * width;
                std::vector<int32_t> order;
                for (int64_t i = 0; i < width; ++i)
                    if (row[i] > -INFINITY) order.push_back(int32_t(i));
                std::stable_sort(order.begin(), order.end(),
                                 [row](int32_t i, int32_t j) { return row[i] > row[j]; });
                for (int64_t i = 0; i < count; ++i) {
                    const Ranked& f = found[size_t(r * count + i)];
                    right = right && (size_t(i) < order.size()
                                          ? f.index == order[size_t(i)] && f.value == row[order[size_t(i)]]
                                          : f.index == -1);
                }
            }
            require(fmt::format("rank {} of {}", count, width), right);
        }
}

void Conformance::experts() {
    const int64_t width = 256, inner = 256;
    const int32_t used = 3;
    for (const Type type : main_types) {
        const double bound = traits(type).quantised ? bounds.quantised : bounds.products;
        const double outliers = traits(type).quantised ? bounds.outliers : bounds.products;
        const TestWeight gates(type, width, inner, 5, 1), ups(type, width, inner, 5, 2),
            downs(type, inner, width, 5, 3);
        if (!device.supports(gates.source, nullptr)) continue;
        // Here live experts 3 to 7 of 9. `crowd`: everybody wants the same.
        for (const int64_t rows : {1, 3, 20})
            for (const bool crowd : {false, true}) {
                if (crowd && rows < 20) continue;
                const auto routed = [=](Bench& b) {
                    Random random{uint64_t(rows)};
                    std::vector<int32_t> chosen;
                    for (int64_t c = 0; c < rows * used; ++c)
                        chosen.push_back(crowd ? int32_t(4 + c % used)
                                               : random.below(3) + int32_t(c % used) * 3);
                    Floats weights = numbers(random, rows * used);
                    return b.routing(chosen, weights, used);
                };
                const auto single = [&](bool per_choice) {
                    return [&, per_choice](Bench& b) {
                        const auto weight = b.device.prepare(gates.source);
                        const Rows y = b.blank(rows * used, inner);
                        const Rows x =
                            random_rows(b, 4, per_choice ? rows * used : rows, width,
                                        per_choice ? Data::outliers : Data::normal, per_choice ? 8 : 0);
                        b.device.expert_linear(
                            y, {weight.get(), per_choice ? random_floats(b, 5, 5 * inner) : nullptr, 3}, x,
                            routed(b));
                        return b.read(y);
                    };
                };
                const auto gated = [&](Activation activation, bool bias, bool of_body) {
                    return [&, activation, bias, of_body](Bench& b) {
                        const auto gate = b.device.prepare(gates.source), up = b.device.prepare(ups.source);
                        const ExpertWeight g{gate.get(), bias ? random_floats(b, 6, 5 * inner) : nullptr, 3};
                        const ExpertWeight u{up.get(), bias ? random_floats(b, 7, 5 * inner) : nullptr, 3};
                        const Rows e = b.blank(rows * used, inner), scratch = b.blank(rows * used, inner);
                        const Rows x = random_rows(b, 8, rows, width);
                        if (of_body)
                            b.device.Device::expert_gate_up(e, g, u, x, routed(b), activation, scratch);
                        else
                            b.device.expert_gate_up(e, g, u, x, routed(b), activation, scratch);
                        return b.read(e);
                    };
                };
                const auto combined = [&](bool bias, bool of_body) {
                    return [&, bias, of_body](Bench& b) {
                        const auto down = b.device.prepare(downs.source);
                        const ExpertWeight d{down.get(), bias ? random_floats(b, 9, 5 * width) : nullptr, 3};
                        const Rows y = b.blank(rows, width), e = random_rows(b, 10, rows * used, inner);
                        const Rows scratch = b.blank(rows * used, width);
                        if (of_body)
                            b.device.Device::expert_down_combine(y, d, e, routed(b), scratch);
                        else
                            b.device.expert_down_combine(y, d, e, routed(b), scratch);
                        return b.read(y);
                    };
                };
                const std::string name =
                    fmt::format("{}, {} rows{}", type_name(type), rows, crowd ? ", crowded" : "");
                for (const bool per_choice : {false, true})
                    compare(fmt::format("expert_linear {}{}", name, per_choice ? ", x per choice" : ""),
                            per_choice ? outliers : bound, single(per_choice));
                for (const bool bias : {false, true}) {
                    const Activation activation = bias ? Activation::clamped_swiglu : Activation::silu;
                    compare("expert_gate_up " + name, 4 * bound, gated(activation, bias, false));
                    agree("expert_gate_up " + name, bounds.fused_products, gated(activation, bias, false),
                          gated(activation, bias, true));
                    compare("expert_down_combine " + name, bound, combined(bias, false));
                    agree("expert_down_combine " + name, bounds.fused_products, combined(bias, false),
                          combined(bias, true));
                }
            }
    }
    for (const int64_t size : {1, 50, 640})
        compare(fmt::format("expert_combine, width {}", size), bounds.elements, [=](Bench& b) {
            Random random(11);
            const Rows y = b.blank(5, size, 2), e = random_rows(b, 12, 5 * used, size, Data::outliers);
            b.device.expert_combine(
                y, e, b.routing(std::vector<int32_t>(5 * used, 0), numbers(random, 5 * used), used));
            return b.read(y);
        });
}

}  // namespace coterie::test
