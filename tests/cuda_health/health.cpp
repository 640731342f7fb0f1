// What the management library says of a card, over a fake one: `coterie devices` prints it, and an engine is
// degraded while a card is too warm or slowed down.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "catch.h"
#include "cuda/nvml.h"
#include "device/cuda_backend.h"
#include "engine/engine.h"
#include "model/golden.h"

using namespace coterie;
using namespace std::chrono_literals;

namespace {

struct Said {
    explicit Said(const char* words) { setenv("COTERIE_FAKE_NVML", words, 1); }
    ~Said() { unsetenv("COTERIE_FAKE_NVML"); }
};

// The plug-in of emulated GPUs, as an engine opens it, with the fake library.
void use_plug_in() {
    setenv("COTERIE_CUDA_LIBRARY", EMULATED_PLUG_IN, 1);
    setenv("COTERIE_NVML_LIBRARY", FAKE_NVML, 1);
}

// Answers until the engine is in that state; false after half a minute.
bool reaches(Engine& engine, EngineState state) {
    const auto end = std::chrono::steady_clock::now() + 30s;
    while (engine.state() != state) {
        if (std::chrono::steady_clock::now() > end) return false;
        GenerationRequest request;
        request.prompt = {1, 2, 3};
        request.max_tokens = 2;
        request.ignore_end = true;
        const auto generation = engine.submit(std::move(request));
        Piece piece;
        while (generation->next(piece, -1ms) == Generation::Next::piece) {
        }
    }
    return true;
}

}  // namespace

TEST_CASE("what the management library says of a card is a sentence", "[health]") {
    const cuda::Nvml nvml(FAKE_NVML);
    REQUIRE(nvml.why_not().empty());
    CHECK(nvml.driver() == "570.00.1");
    CHECK(nvml.version() == "12.570.00.1");
    CHECK(nvml.links("0000:01:00.0") == "PCIe 3.0 x16, 4 NVLinks");
    CHECK(nvml.links("0000:f1:00.0").empty());
    const auto complaint = [&nvml](const char* words) {
        const Said said(words);
        return nvml.health("0000:01:00.0").complaint();
    };
    CHECK(complaint("").empty());
    CHECK(complaint("celsius=84").empty());
    CHECK(complaint("slowed=5").empty());  // idle, and held to the power that was set
    CHECK(complaint("celsius=85") == "it has 85 degrees Celsius, 85 or more is too warm");
    CHECK(complaint("celsius=90 slowed=72") ==
          "it has 90 degrees Celsius, 85 or more is too warm; the card slows itself down (heat, or its power "
          "supply); it slows itself down for its heat");
    CHECK(complaint("errors=1") ==
          "its memory had 1 error that could not be corrected; results may be wrong");
    CHECK(complaint("lost") == "the driver can't reach it any more (GPU is lost)");
    CHECK(nvml.health("0000:f1:00.0").complaint().empty());  // not known to it: nothing to say
}

TEST_CASE("without a management library everything is empty, and why is said", "[health]") {
    const cuda::Nvml none("libnot-there.so.1");
    CHECK(none.why_not().find("libnot-there.so.1") != std::string::npos);
    CHECK(none.health("0000:01:00.0").complaint().empty());
    CHECK(none.links("0000:01:00.0").empty());
    const cuda::Nvml other(EMULATED_PLUG_IN);  // a library, and another one
    CHECK(other.why_not().find("lacks a function") != std::string::npos);
    const Said said("init=9");
    const cuda::Nvml refused(FAKE_NVML);
    CHECK(refused.why_not().find("Driver Not Loaded") != std::string::npos);
    CHECK(refused.driver().empty());
}

TEST_CASE("an engine whose GPU is too warm is degraded until it is cooler", "[health]") {
    use_plug_in();
    EngineOptions options;
    options.devices = "cuda:0";
    options.context_tokens = 64;
    const std::shared_ptr<const Model> model = Model::open(golden::load("qwen3moe").path);
    Engine engine(model, std::make_shared<const text::Tokenizer>(text::Tokenizer::from_gguf(model->file())),
                  options);
    CHECK(engine.state() == EngineState::ready);
    {
        const Said said("celsius=91");
        REQUIRE(reaches(engine, EngineState::degraded));
        CHECK(engine.state_reason().find("cuda:0: it has 91 degrees Celsius") == 0);
    }
    REQUIRE(reaches(engine, EngineState::ready));
    CHECK(engine.state_reason().empty());
}

#ifdef COTERIE_TOOL
TEST_CASE("coterie devices says what a GPU is and how it is", "[health]") {
    use_plug_in();
    const auto output = [](const std::string& arguments) {
        std::string text;
        FILE* pipe = popen((std::string(COTERIE_TOOL) + " devices " + arguments).c_str(), "r");
        REQUIRE(pipe != nullptr);
        for (int c; (c = std::fgetc(pipe)) != EOF;) text += char(c);
        CHECK(pclose(pipe) == 0);
        return text;
    };
    const Said said("celsius=88");
    const std::string text = output("");
    CAPTURE(text);
    for (const char* words :
         {"cuda:1: Emulated GPU 1, compute capability 8.0", "PCI 0000:02:00.0, PCIe 3.0 x16, 4 NVLinks",
          "reaches cuda:0", "88 degrees", "driver 570.00.1 for CUDA", "runtime 1",
          "it has 88 degrees Celsius, 85 or more is too warm"}) {
        CAPTURE(words);
        CHECK(text.find(words) != std::string::npos);
    }
    setenv("COTERIE_NVML_LIBRARY", "/not/there.so", 1);
    CHECK(output("").find("management library is not there") != std::string::npos);
    setenv("COTERIE_NVML_LIBRARY", FAKE_NVML, 1);
}
#endif
