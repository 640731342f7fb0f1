// Quantised mixtures with the expert widths that matter (768, 640, 512) cut at 32 columns: inside
// super-blocks of 256, on three ranks and seven, in every mode. What the file's blocks say is exact on the
// reference device; the CPU device rounds activations per 32 columns, so that a cut moves nothing but
// rounding.
#include "../convert/files.h"
#include "catch.h"
#include "convert/synth.h"
#include "device/cpu/cpu_device.h"
#include "ranks.h"
#include "widths.h"

using namespace coterie;
using ranks::Way;
using widths::prompt;
using widths::tiny;

namespace {

std::unique_ptr<Device> one_thread() {
    CpuOptions options;
    options.threads = 1;
    return std::make_unique<CpuDevice>(options);
}

std::vector<float> first_row(const ranks::Answer& a) {
    return {a.logits.begin(), a.logits.begin() + 600};
}

}  // namespace

TEST_CASE("experts cut inside super-blocks give the same answers") {
    const TemporaryFolder folder;
    for (const widths::Case& c : widths::cases()) {
        const std::string path = folder / "model.gguf";
        convert::synth(tiny(c.architecture, c.width), path, {.recipe = c.recipe});
        const auto model = Model::open(path);
        const ranks::Answer alone = ranks::answer(*ranks::make_runner(model, {}), prompt, 12);
        for (const Way& way : {Way{Mode::tensor, 3}, Way{Mode::tensor, 7}, Way{Mode::expert, 4}}) {
            CAPTURE(c.architecture, c.width, quant::recipe_name(c.recipe), ranks::name_of(way));
            const ranks::Answer a = ranks::answer(*ranks::make_runner(model, way), prompt, 12);
            CHECK(a.tokens == alone.tokens);
            CHECK(ranks::nmse(a.logits, alone.logits) <= 1e-10);
        }
    }
}

TEST_CASE("CPU ranks agree with one CPU rank") {
    const TemporaryFolder folder;
    for (const int width : {768, 640}) {
        const std::string path = folder / "model.gguf";
        convert::synth(tiny("qwen35moe", width), path);
        const auto model = Model::open(path);
        const ranks::Answer alone = ranks::answer(*ranks::make_runner(model, {}, one_thread), prompt, 8);
        for (const Way& way : {Way{Mode::tensor, 2}, Way{Mode::tensor, 3}, Way{Mode::expert, 3},
                               Way{Mode::layer, 2}, Way{Mode::tensor, 2, {}, 2}}) {
            CAPTURE(width, ranks::name_of(way));
            const ranks::Answer a = ranks::answer(*ranks::make_runner(model, way, one_thread), prompt, 8);
            CHECK(a.tokens == alone.tokens);
            // Sums in another order differ by 1e-7, which now and then rounds an activation to the next of
            // its 8 bits; the recurrent state carries that on. Rows before it are equal but for F32.
            CHECK(ranks::nmse(first_row(a), first_row(alone)) <= 1e-11);
            CHECK(ranks::nmse(a.logits, alone.logits) <= 1e-3);
        }
    }
}
