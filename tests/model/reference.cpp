// The reference device against logits that others computed.
#include <cstdio>

#include "catch.h"
#include "device/reference/reference_device.h"
#include "golden.h"

using namespace coterie;

static std::unique_ptr<Device> reference() {
    return std::make_unique<ReferenceDevice>();
}

TEST_CASE("transformers' logits on the reference device") {
    std::vector<std::string> all = golden::names("");
    for (const std::string& name : golden::names("mxfp4")) all.push_back(name);
    CHECK(all.size() >= 27);
    for (const std::string& name : all) {
        const golden::Case c = golden::load(name);
        CAPTURE(name);
        const auto runner = golden::make_runner(c.path, reference);
        golden::Sequence sequence(*runner);
        const auto logits = sequence.append(c.prompt);
        CHECK(golden::nmse(golden::rows_at(logits, c.positions, c.vocabulary), c.logits) <= 1e-9);
        golden::Sequence again(*runner);
        const auto longer = again.append(c.long_prompt);
        CHECK(golden::nmse(golden::rows_at(longer, c.long_positions, c.vocabulary), c.long_logits) <= 1e-9);
    }
}

TEST_CASE("llama.cpp's logits on the reference device") {
    for (const std::string& name : golden::names("llamacpp")) {
        const golden::Case c = golden::load(name);
        CAPTURE(name);
        const auto runner = golden::make_runner(c.path, reference);
        golden::Sequence sequence(*runner);
        const auto logits = golden::rows_at(sequence.append(c.prompt), c.positions, c.vocabulary);
        if (name.ends_with("-f32")) {
            CHECK(golden::nmse(logits, c.logits) <= 1e-9);
            golden::Sequence again(*runner);
            const auto longer = again.append(c.long_prompt);
            CHECK(golden::nmse(golden::rows_at(longer, c.long_positions, c.vocabulary), c.long_logits) <=
                  1e-9);
        } else {
            // What exact arithmetic gives for the file's weights.
            CHECK(golden::nmse(logits, c.truth) <= 1e-9);
        }
        if (name.ends_with("-f16")) CHECK(golden::nmse(logits, c.logits) <= 1e-4);
    }
}
