// The conformance suite must be able to fail: devices with one small mistake each, which it has to notice.
#include "catch.h"
#include "conformance.h"
#include "device/reference/reference_device.h"

using namespace coterie;
using namespace coterie::test;

namespace {

// Attends with a window one token too wide.
struct WideWindow : ReferenceDevice {
    void attend(Rows y, Rows q, const Cache& cache, int32_t layer, const Attention& attention,
                const Step& step) override {
        Attention wide = attention;
        if (wide.window > 0) ++wide.window;
        ReferenceDevice::attend(y, q, cache, layer, wide, step);
    }
};

// Ties go to the higher expert.
struct HighTies : ReferenceDevice {
    void choose_experts(Routing routing, Rows scores, const Router& router) override {
        Floats flipped;
        for (int64_t r = 0; r < scores.rows; ++r)
            for (int64_t e = scores.width; e-- > 0;) flipped.push_back(scores.row(r)[e]);
        Router mirror = router;
        Floats bias;
        if (router.selection_bias) {
            for (int32_t e = router.experts; e-- > 0;) bias.push_back(router.selection_bias[e]);
            mirror.selection_bias = bias.data();
        }
        ReferenceDevice::choose_experts(routing, Rows(flipped.data(), scores.rows, scores.width), mirror);
        for (int64_t c = 0; c < routing.rows * routing.used; ++c)
            routing.experts[c] = router.experts - 1 - routing.experts[c];
    }
};

// Writes one float beyond the rows of a strided view.
struct Overrun : ReferenceDevice {
    void softcap(Rows x, float cap) override {
        ReferenceDevice::softcap(x, cap);
        if (x.stride > x.width) x.row(0)[x.width] = 0;
    }
};

// Forgets the recurrent state of a sequence that brings one token.
struct Forgetful : ReferenceDevice {
    void delta_rule(Rows y, Rows q, Rows k, Rows v, Rows decay, Rows beta, States& states, int32_t layer,
                    const DeltaRule& rule, const Step& step) override {
        for (const Span& span : step.spans)
            if (span.rows == 1) clear_state(states, span.state);
        ReferenceDevice::delta_rule(y, q, k, v, decay, beta, states, layer, rule, step);
    }
};

// A fused operation that leaves out the bias.
struct NoBias : ReferenceDevice {
    void linear_many(std::span<const Projection> projections, Rows x) override {
        for (const Projection& p : projections) linear(p.y, *p.weight, x, nullptr);
    }
};

// How many of the checks of a part fail, and whether all of them are of the operation that is wrong.
template <typename Wrong>
void notice(void (Conformance::*part)(), const std::string& operation) {
    Wrong device;
    const Bounds bounds;
    Conformance conformance(device, bounds);
    (conformance.*part)();
    INFO(operation);
    CHECK(!conformance.failures.empty());
    CHECK(int(conformance.failures.size()) < conformance.tried);
    for (const std::string& failure : conformance.failures)
        if (failure.find(operation) == std::string::npos) FAIL_CHECK(failure);
}

}  // namespace

TEST_CASE("the conformance suite notices small mistakes", "[conformance]") {
    notice<WideWindow>(&Conformance::attention, "window");
    notice<HighTies>(&Conformance::routing, "choose_experts");
    notice<Overrun>(&Conformance::elements, "softcap");
    notice<Forgetful>(&Conformance::delta, "delta_rule");
    notice<NoBias>(&Conformance::products, "linear_many");
}
