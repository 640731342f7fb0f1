// Tiled products of every packed and floating-point type under the access checker, on an architecture with
// int8 tensor cores and on Volta: against sums in double over the decoded weights and over activations
// rounded to 8 bits as rounding.cu says, so that what is left is F32's own error.
#include <access_checker.h>
#include <emulated_cuda.h>
#include <fake_runtime.h>

#include <cmath>

#include "../device/workbench.h"
#include "catch.h"
#include "cuda/cuda_device.h"
#include "cuda/weight.h"
#include "quant/decode.h"
#include "read_share.h"

using namespace coterie;
using namespace coterie::test;

namespace {

std::vector<double> rounded(const Floats& x) {
    std::vector<double> values(x.size());
    for (size_t begin = 0; begin < x.size(); begin += 32) {
        float most = 0;
        for (size_t i = begin; i < begin + 32; ++i) most = std::max(most, std::abs(x[i]));
        const float d = most / 127.0f, inverse = 127.0f / most;
        for (size_t i = begin; i < begin + 32; ++i) values[i] = double(d) * std::rint(x[i] * inverse);
    }
    return values;
}

// A row of x times a matrix [out][in].
Floats product(const std::vector<double>& x, int64_t row, const float* weights, int64_t in, int64_t out) {
    Floats y;
    for (int64_t o = 0; o < out; ++o) {
        double sum = 0;
        for (int64_t i = 0; i < in; ++i) sum += x[size_t(row * in + i)] * double(weights[o * in + i]);
        y.push_back(float(sum));
    }
    return y;
}

constexpr Type types[] = {Type::F32,    Type::F16,    Type::BF16,  Type::Q4_0, Type::Q4_1, Type::Q5_0,
                          Type::Q5_1,   Type::Q8_0,   Type::Q3_K,  Type::Q4_K, Type::Q5_K, Type::Q6_K,
                          Type::IQ4_NL, Type::IQ4_XS, Type::MXFP4, Type::Q2_K};

}  // namespace

TEST_CASE("tiles of every type are products, on Volta and later") {
    for (const int major : {7, 8}) {
        fake::Machine machine;
        machine.major = major;
        machine.seed = uint64_t(major);
        fake::reset(machine);
        cuda::CudaDevice device;
        for (const Type type : types) {
            // 67 outputs are two blocks, the second nearly empty; columns no multiple of a stage.
            const int64_t in = traits(type).block_elements == 256 ? 256 : 160, out = 67, experts = 5;
            CAPTURE(major, type_name(type));
            const TestWeight matrix(type, in, out, experts);
            Floats weights(size_t(in * out * experts));
            quant::decode(type, matrix.bytes.data(), weights.data(), in * out * experts);
            const auto all = device.prepare(matrix.source);
            const Type held = cuda::held(*all).type;
            const bool exact = !cuda::is_packed(held);
            const double bound = held == type ? 1e-11 : 1e-7;  // F16 instead
            const auto activations = [&](const Floats& x) {
                return exact ? std::vector<double>(x.begin(), x.end()) : rounded(x);
            };
            WeightSource one = matrix.source;
            one.matrices.resize(1);
            const auto dense = device.prepare(one);
            for (const int64_t rows : {9, 33, 41}) {
                CAPTURE(rows);
                Bench b(device);
                Random random{uint64_t(rows)};
                const Floats x = numbers(random, rows * in);
                const Rows y = b.blank(rows, out, 3);
                device.linear(y, *dense, b.rows(x, rows, in), nullptr);
                const std::vector<double> seen = activations(x);
                Floats expected;
                for (int64_t r = 0; r < rows; ++r)
                    for (const float v : product(seen, r, weights.data(), in, out)) expected.push_back(v);
                CHECK(nmse(b.read(y), expected) < bound);
            }
            // 19 rows of 2 choices: experts 0 and 6 are elsewhere, 1 takes no row, 2 one, 3 many, 5 the rest.
            const int64_t rows = 19, used = 2;
            std::vector<int32_t> chosen;
            for (int64_t r = 0; r < rows; ++r) {
                chosen.push_back(r == 4 ? 2 : 3);
                chosen.push_back(r == 4 ? 0 : r == 7 ? 6 : r < 7 ? 5 : 4);
            }
            for (const bool per_choice : {false, true}) {
                CAPTURE(per_choice);
                Bench b(device);
                Random random(9);
                const Floats x = numbers(random, (per_choice ? rows * used : rows) * in),
                             bias = numbers(random, experts * out);
                const Rows y = b.blank(rows * used, out);
                device.expert_linear(y, {all.get(), b.put(bias), 1},
                                     b.rows(x, per_choice ? rows * used : rows, in),
                                     b.routing(chosen, Floats(size_t(rows * used), 1.0f), used));
                const std::vector<double> seen = activations(x);
                Floats expected;
                for (int64_t c = 0; c < rows * used; ++c) {
                    const int64_t e = chosen[size_t(c)] - 1;
                    const bool here = e >= 0 && e < experts;
                    const int64_t first = here ? e * out : 0;
                    const Floats values =
                        product(seen, per_choice ? c : c / used, &weights[size_t(first * in)], in, out);
                    for (int64_t o = 0; o < out; ++o)
                        expected.push_back(here ? values[size_t(o)] + bias[size_t(e * out + o)] : 0.0f);
                }
                CHECK(nmse(b.read(y), expected) < bound);
            }
        }
        for (const std::string& problem : fake::problems()) FAIL_CHECK(problem);
        emulator::reports().clear();
    }
    fake::reset({});
}

TEST_CASE("experts with many rows and with few, in tiles of 32 and 64") {
    fake::reset({});
    cuda::CudaDevice device;
    const int64_t in = 64, out = 16, experts = 4, used = 2;
    const TestWeight matrix(Type::Q8_0, in, out, experts);
    Floats weights(size_t(in * out * experts));
    quant::decode(Type::Q8_0, matrix.bytes.data(), weights.data(), in * out * experts);
    const auto weight = device.prepare(matrix.source);
    for (const int64_t rows : {17, 33, 100}) {
        for (const bool one : {false, true}) {  // every row to the same two
            CAPTURE(rows, one);
            Bench b(device);
            Random random(3);
            std::vector<int32_t> chosen;
            for (int64_t c = 0; c < rows * used; ++c)
                chosen.push_back(one ? int32_t(c % used) : random.below(int32_t(experts)));
            const Floats x = numbers(random, rows * in);
            const Rows y = b.blank(rows * used, out);
            device.expert_linear(y, {weight.get(), nullptr, 0}, b.rows(x, rows, in),
                                 b.routing(chosen, Floats(size_t(rows * used), 1.0f), used));
            const std::vector<double> seen = rounded(x);
            Floats expected;
            for (int64_t c = 0; c < rows * used; ++c) {
                const float* expert = &weights[size_t(chosen[size_t(c)] * out * in)];
                for (const float v : product(seen, c / used, expert, in, out)) expected.push_back(v);
            }
            CHECK(nmse(b.read(y), expected) < 1e-11);
        }
    }
    for (const std::string& problem : fake::problems()) FAIL_CHECK(problem);
    emulator::reports().clear();
}

TEST_CASE("a tile of rows reads each weight byte once") {
    for (const auto& [major, type] :
         {std::pair{8, Type::Q4_K}, {8, Type::Q6_K}, {7, Type::Q8_0}, {7, Type::F16}}) {
        fake::Machine machine;
        machine.major = major;
        fake::reset(machine);
        cuda::CudaDevice device;
        CAPTURE(major, type_name(type));
        Bench b(device);
        const int64_t in = 512, out = 64;
        const TestWeight matrix(type, in, out, 1);
        const auto weight = device.prepare(matrix.source);
        Random random(1);
        const Rows x = b.rows(numbers(random, 30 * in), 30, in), y = b.blank(30, out);
        emulator::watch_traffic(true);
        device.linear(y, *weight, x, nullptr);
        device.wait();
        CHECK(read_share(*weight, 1) >= 1.0);
        CHECK(read_share(*weight, 1) <= 1.05);
        const emulator::Worst banks = emulator::worst_banks();
        CAPTURE(banks.place);
        CHECK(banks.ratio <= 2.0);
        CHECK(emulator::sectors_over_ideal() <= 1.25);
        emulator::watch_traffic(false);
    }
    for (const std::string& problem : fake::problems()) FAIL_CHECK(problem);
    emulator::reports().clear();
}
