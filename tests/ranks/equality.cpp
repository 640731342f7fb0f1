// One rank equals many, however the model is cut: the same greedy tokens and logits that differ by the
// rounding of F32 sums only. Models are so small that many ranks hold nothing of some axis.
#include <cstdio>

#include "catch.h"
#include "model/golden.h"
#include "ranks.h"

using namespace coterie;
using ranks::Way;

namespace {

std::vector<Way> ways(const Hyperparameters& h) {
    std::vector<Way> all;
    for (const int n : {2, 3, 4, 7}) {
        all.push_back({Mode::tensor, n});
        if (h.has_experts()) all.push_back({Mode::expert, n});
        all.push_back({Mode::layer, n});
    }
    all.push_back({Mode::tensor, 3, {1.0, 3.0, 0.5}});
    all.push_back({Mode::layer, 3, {3.0, 1.0, 1.0}});
    all.push_back({Mode::layer, 2, {}, 0, 1e6});  // as many parts as may be
    all.push_back({Mode::layer, 3, {}, 0, 0.5});
    if (h.has_experts()) {
        all.push_back({Mode::tensor, 2, {}, 2});
        all.push_back({Mode::expert, 1, {}, 3});
    }
    return all;
}

}  // namespace

TEST_CASE("the golden models on any number of ranks") {
    for (const std::string& name : golden::names("")) {
        const golden::Case c = golden::load(name);
        const auto model = Model::open(c.path);
        std::vector<int32_t> want = c.greedy;
        want.resize(std::min<size_t>(want.size(), 12));
        for (const Way& way : ways(model->numbers())) {
            CAPTURE(name, ranks::name_of(way));
            const auto runner = ranks::make_runner(model, way);
            const ranks::Answer a = ranks::answer(*runner, c.prompt, int(want.size()));
            CHECK(a.tokens == want);
            CHECK(golden::nmse(golden::rows_at(a.logits, c.positions, c.vocabulary), c.logits) <= 1e-9);
        }
    }
}
