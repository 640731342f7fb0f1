// Plans of real models on real machines, kept as text: tests/data/plan. Needs neither: the models are headers
// of their true size. With COTERIE_WRITE_PLANS set the texts are written instead of compared; read the
// difference before it is committed.
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "../convert/files.h"
#include "base/failure.h"
#include "catch.h"
#include "convert/synth.h"
#include "engine/placement.h"
#include "plan/planner.h"

using namespace coterie;

namespace {

const std::vector<std::string> models{"qwen3.5-122b", "qwen3.5-35b", "qwen3-30b", "qwen3-235b", "flash-next"};

std::shared_ptr<const Model> header(const std::string& preset) {
    static const TemporaryFolder folder;
    static std::map<std::string, std::shared_ptr<const Model>> opened;
    std::shared_ptr<const Model>& model = opened[preset];
    if (!model) {
        const std::string path = folder / (preset + ".gguf");
        convert::synth(convert::preset(preset), path, {.header_only = true});
        model = Model::open(path);
    }
    return model;
}

void compare(const std::string& name, const std::string& text) {
    CAPTURE(name);
    const std::string path = std::string(TEST_DATA "/plan/") + name + ".txt";
    if (std::getenv("COTERIE_WRITE_PLANS")) {
        std::ofstream(path) << text;
        return;
    }
    std::ifstream file(path);
    std::ostringstream kept;
    kept << file.rdbuf();
    CHECK(text == kept.str());
}

Plan plan_of(const std::string& model, const std::string& machine, const PlanRequest& request = {}) {
    return make_plan(*header(model), find_machine(machine), request);
}

}  // namespace

TEST_CASE("every model on every machine, as text") {
    for (const std::string& model : models)
        for (const std::string& machine : machine_names())
            compare(model + "-on-" + machine, plan_text(plan_of(model, machine)));
}

TEST_CASE("122B on four 3090s fits; with four sequences of 262144 tokens it is refused with what would") {
    const Plan fits = plan_of("qwen3.5-122b", "4x3090");
    CHECK(fits.fits);
    CHECK(fits.context_tokens == 8192);
    const Plan refused = plan_of("qwen3.5-122b", "4x3090", {.context_tokens = 262144, .parallel = 4});
    compare("qwen3.5-122b-on-4x3090-262144x4", plan_text(refused));
    CHECK(!refused.fits);
    CHECK(!refused.problems.empty());
    REQUIRE(refused.largest_context > 0);
    // The largest that fits fits, and a page more does not.
    PlanRequest request{.context_tokens = refused.largest_context, .parallel = 4};
    CHECK(plan_of("qwen3.5-122b", "4x3090", request).fits);
    request.context_tokens += plan_page_tokens;
    CHECK(!plan_of("qwen3.5-122b", "4x3090", request).fits);
}

TEST_CASE("35B on two 3090s and 122B on four V100s fit in every mode") {
    for (const auto& [model, machine] :
         {std::pair("qwen3.5-35b", "2x3090"), std::pair("qwen3.5-122b", "4xv100-32g")})
        for (const Mode mode : {Mode::tensor, Mode::expert, Mode::layer}) {
            CAPTURE(model, machine, mode_name(mode));
            const Plan plan = plan_of(model, machine, {.mode = mode});
            CHECK(plan.fits);
            CHECK(plan.mode == mode);
            compare(std::string(model) + "-on-" + machine + "-" + mode_name(mode), plan_text(plan));
        }
}

TEST_CASE("235B on four V100s is refused, and accepted with experts on the host") {
    const Plan refused = plan_of("qwen3-235b", "4xv100-32g");
    CHECK(!refused.fits);
    const Plan accepted = plan_of("qwen3-235b", "4xv100-32g", {.host_experts = true});
    compare("qwen3-235b-on-4xv100-32g-host-experts", plan_text(accepted));
    CHECK(accepted.fits);
    CHECK(accepted.ranks.size() == 5);
    CHECK(accepted.host_experts > 0);
    CHECK(accepted.host_experts < 30);
    compare("qwen3-30b-on-1x4090-64g-host-experts",
            plan_text(plan_of("qwen3-30b", "1x4090-64g", {.context_tokens = 131072, .host_experts = true})));
}

TEST_CASE("tensor mode is balanced on equal cards") {
    for (const std::string& model : models)
        for (const char* machine : {"4xv100-32g", "4x3090", "2x3090", "2-socket-cpu"}) {
            CAPTURE(model, machine);
            CHECK(plan_of(model, machine, {.mode = Mode::tensor}).imbalance <= 1.03);
        }
    // Three cards: no width that matters divides by three.
    Machine three = find_machine("4x3090");
    three.devices.pop_back();
    three.links.assign(9, three.links[1]);
    for (const std::string& model : models) {
        CAPTURE(model);
        CHECK(make_plan(*header(model), three, {.mode = Mode::tensor}).imbalance <= 1.03);
    }
}

TEST_CASE("unequal cards get what they can hold") {
    Machine m = find_machine("4x3090");
    m.devices[0].free_bytes *= 2;
    m.devices[0].total_bytes *= 2;
    for (const Mode mode : {Mode::tensor, Mode::expert, Mode::layer}) {
        CAPTURE(mode_name(mode));
        const Plan plan = make_plan(*header("qwen3.5-122b"), m, {.mode = mode});
        CHECK(plan.fits);
        CHECK(double(plan.ranks[0].weights_bytes) ==
              Approx(2.0 * double(plan.ranks[1].weights_bytes)).epsilon(0.1));
    }
    const Plan limited =
        make_plan(*header("qwen3.5-35b"), m, {.mode = Mode::tensor, .limits = {0, uint64_t(5) << 30}});
    CHECK(limited.ranks[1].capacity_bytes == uint64_t(5) << 30);
    CHECK(limited.ranks[1].total_bytes() <= uint64_t(5) << 30);
}

TEST_CASE("the cache type halves the cache, and more sequences take more") {
    const Plan f16 = plan_of("qwen3-30b", "4x3090", {.context_tokens = 4096});
    const Plan q8 = plan_of("qwen3-30b", "4x3090",
                            {.context_tokens = 4096, .key_type = Type::Q8_0, .value_type = Type::Q8_0});
    CHECK(q8.ranks[0].kv_bytes * 32 == f16.ranks[0].kv_bytes * 17);  // 34 bytes for 64
    // 48 layers x 4 KV heads x (128 + 128) x 2 bytes x 4096 tokens, a quarter on each.
    CHECK(f16.ranks[0].kv_bytes == uint64_t(48) * 256 * 2 * 4096);
    const Plan four = plan_of("qwen3-30b", "4x3090", {.context_tokens = 4096, .parallel = 4});
    CHECK(four.ranks[0].kv_bytes == 4 * f16.ranks[0].kv_bytes);
}

TEST_CASE("JSON has the keys that are promised") {
    const nlohmann::json j = nlohmann::json::parse(plan_json(plan_of("qwen3.5-35b", "2x3090")));
    for (const char* key : {"mode", "reason", "imbalance", "predicted", "ranks"}) CHECK(j.contains(key));
    REQUIRE(j["ranks"].size() == 2);
    for (const auto& rank : j["ranks"]) {
        uint64_t sum = 0;
        for (const char* key : {"weights_bytes", "kv_bytes", "state_bytes", "scratch_bytes", "comm_bytes"})
            sum += rank.at(key).get<uint64_t>();
        CHECK(rank.at("total_bytes") == sum);
        CHECK(rank.at("capacity_bytes") >= sum);
        CHECK(rank.at("device").is_string());
        CHECK(rank.size() == 8);
    }
}

// Every block of docs/placement.md that shows a plan, under the command that makes it. A block may leave
// lines out, never change one.
TEST_CASE("the worked examples of the documentation are what the tool prints") {
    std::ifstream file(SOURCE_ROOT "/docs/placement.md");
    std::ostringstream whole;
    whole << file.rdbuf();
    const std::string document = whole.str();
    const size_t json = document.find("```json\n") + 8;
    const Machine box = parse_machine(
        std::string_view(document).substr(json, document.find("```", json) - json), "docs/placement.md");
    std::istringstream lines(document);
    std::string line, printed;
    std::vector<std::string> command;
    int examples = 0;
    while (std::getline(lines, line)) {
        if (line.rfind("    ", 0) != 0) {
            if (!line.empty()) printed.clear();
            continue;
        }
        line.erase(0, 4);
        if (line.rfind("coterie ", 0) == 0) {
            command.clear();
            std::istringstream words(line.substr(0, line.find('#')));
            for (std::string word; words >> word;) command.push_back(word);
            continue;
        }
        const size_t name = line.find(".gguf on ");
        if (name != std::string::npos) {
            REQUIRE(command.at(1) == "plan");
            PlanRequest request;
            Machine machine;
            for (size_t i = 3; i < command.size(); ++i) {
                const auto value = [&] { return command.at(++i); };
                if (command[i] == "--machine")
                    machine = value() == "box.json" ? box : find_machine(command[i]);
                else if (command[i] == "--ctx")
                    request.context_tokens = std::stoi(value());
                else if (command[i] == "--parallel")
                    request.parallel = std::stoi(value());
                else if (command[i] == "--mode")
                    request.mode = mode_named(value());
                else if (command[i] == "--host-experts")
                    request.host_experts = true;
                else
                    FAIL("the test does not know " << command[i]);
            }
            printed = "\n" + plan_text(make_plan(*header(line.substr(0, name)), machine, request)) + "\n";
            ++examples;
        }
        if (printed.empty()) continue;
        CAPTURE(command, line, printed);
        CHECK(printed.find("\n" + line + "\n") != std::string::npos);
    }
    CHECK(examples == 7);
}

TEST_CASE("requests that contradict themselves are refused with a sentence") {
    CHECK_THROWS_AS(plan_of("qwen3.5-35b", "2x3090", {.parallel = 0}), Failure);
    CHECK_THROWS_AS(plan_of("qwen3.5-35b", "2x3090", {.context_tokens = -1}), Failure);
    CHECK_THROWS_AS(plan_of("qwen3.5-35b", "2x3090", {.key_type = Type::Q4_K}), Failure);
    CHECK_THROWS_AS(plan_of("qwen3.5-35b", "2x3090", {.mode = Mode::single}), Failure);
}

TEST_CASE("a plan of 48 layers on 8 devices takes little time") {
    Machine m = find_machine("4x3090");
    m.devices.insert(m.devices.end(), m.devices.begin(), m.devices.begin() + 4);
    m.links.assign(64, m.links[1]);
    header("qwen3.5-122b");
    for (const PlanRequest& request : {PlanRequest{}, PlanRequest{.context_tokens = 1 << 24}}) {
        const std::clock_t begin = std::clock();  // processor time: the machine may be busy
        const Plan plan = make_plan(*header("qwen3.5-122b"), m, request);
        const double ms = 1000.0 * double(std::clock() - begin) / CLOCKS_PER_SEC;
        std::printf("a plan on 8 devices, %s: %.1f ms\n", plan.fits ? "accepted" : "refused", ms);
        CHECK(plan.ranks.size() == 8);
    }
}
