// The models in the box answer a few hundred held-out questions, through the C border alone: so well as
// measured, and nearly always with the very words that transformers finds with the same weights; and predict
// a text as well as it does. A subtle fault in any kernel, in the routing or in what ranks exchange shows
// here.
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>

#include "catch.h"
#include "coterie/coterie.hpp"

namespace {

using json = nlohmann::json;

struct Box {
    std::string model;
    json expected;
};

Box box(const std::string& architecture) {
    std::ifstream file(TEST_DATA "/box/" + architecture + ".json");
    return {SOURCE_ROOT "/share/models/coterie-box-" + architecture + ".Q4_K_M.gguf", json::parse(file)};
}

struct Answer {
    std::string content, call;  // a call as JSON
    std::string raw;            // as transformers gives it
};

Answer take(coterie::Generation generation) {
    Answer answer;
    coterie_event event;
    std::string name, arguments, reasoning;
    while (generation.next(event) && event.kind != COTERIE_EVENT_FINISHED) {
        const std::string text = event.text ? std::string(event.text, event.length) : "";
        if (event.kind == COTERIE_EVENT_CONTENT) answer.content += text;
        if (event.kind == COTERIE_EVENT_REASONING) reasoning += text;
        if (event.kind == COTERIE_EVENT_TOOL_CALL) name = event.name;
        if (event.kind == COTERIE_EVENT_ARGUMENTS) arguments += text;
    }
    if (!name.empty()) answer.call = R"({"name": ")" + name + R"(", "arguments": )" + arguments + "}";
    answer.raw = reasoning.empty() ? answer.content : reasoning + "|" + answer.content;
    if (!answer.call.empty()) answer.raw = json::parse(answer.call, nullptr, false).dump();
    return answer;
}

std::string trimmed(const std::string& text) {
    const size_t begin = text.find_first_not_of(" \n"), end = text.find_last_not_of(" \n");
    return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

// transformers' text in the form of Answer::raw.
std::string sorted_out(std::string text) {
    std::smatch found;
    if (std::regex_match(text, found, std::regex("<think>\\n([^]*)\\n</think>\\n\\n([^]*)")))
        return found[1].str() + "|" + found[2].str();
    if (std::regex_match(text, found, std::regex("<tool_call>\\n([^]*)\\n</tool_call>")))
        return json::parse(found[1].str(), nullptr, false).dump();
    return text;
}

bool is_right(const json& prompt, const Answer& answer) {
    const json& right = prompt["right"];
    if (prompt["kind"] == "tool") return json::parse(answer.call, nullptr, false) == right;
    if (prompt["kind"] == "json") return json::parse(answer.content, nullptr, false) == right;
    return trimmed(answer.content) == right.get<std::string>();
}

struct Shares {
    std::map<std::string, std::pair<int, int>> right;  // of a kind: right ones, all
    int same = 0, all = 0;
    double of(const std::string& kind) const {
        const auto& [good, count] = right.at(kind);
        return double(good) / count;
    }
};

// Every `stride`-th prompt, eight at once.
Shares shares(const Box& b, const char* devices, const char* isa, size_t stride) {
    const coterie::Model model(b.model);
    coterie_engine_options o = COTERIE_ENGINE_OPTIONS_INIT;
    o.devices = devices;
    o.isa = isa;
    o.context_tokens = 512;
    o.parallel = 8;
    o.queue = 512;
    coterie::Engine engine(model, o);
    coterie_generation_options greedy = COTERIE_GENERATION_OPTIONS_INIT;
    greedy.flags = COTERIE_GREEDY;
    greedy.max_tokens = 160;
    std::vector<std::pair<const json*, coterie::Generation>> running;
    const json& prompts = b.expected["prompts"];
    for (size_t i = 0; i < prompts.size(); i += stride) {
        const json messages = {{{"role", "user"}, {"content", prompts[i]["question"]}}};
        const std::string tools = prompts[i].contains("tools") ? prompts[i]["tools"].dump() : "";
        running.emplace_back(&prompts[i],
                             engine.chat(messages.dump(), tools, COTERIE_CHAT_OPTIONS_INIT, greedy));
    }
    Shares result;
    for (auto& [prompt, generation] : running) {
        const Answer answer = take(std::move(generation));
        auto& [good, all] = result.right[(*prompt)["kind"]];
        good += is_right(*prompt, answer);
        ++all;
        result.same += answer.raw == sorted_out((*prompt)["transformers"]);
        ++result.all;
    }
    return result;
}

// What must be reached, a little below what was measured (docs/model-in-the-box.md).
const std::map<std::string, std::map<std::string, double>> least = {{"qwen3moe",
                                                                     {{"sum", 0.95},
                                                                      {"difference", 0.88},
                                                                      {"sort", 0.86},
                                                                      {"count", 0.9},
                                                                      {"json", 0.98},
                                                                      {"tool", 0.95},
                                                                      {"fact", 0.95},
                                                                      {"coterie", 0.95}}},
                                                                    {"qwen35moe",
                                                                     {{"sum", 0.96},
                                                                      {"difference", 0.96},
                                                                      {"sort", 0.9},
                                                                      {"count", 0.9},
                                                                      {"json", 0.98},
                                                                      {"tool", 0.95},
                                                                      {"fact", 0.95},
                                                                      {"coterie", 0.95}}}};
constexpr double least_same = 0.97;

void check(const Shares& s, const std::string& architecture) {
    if (s.all > 300)  // fewer say little about a kind
        for (const auto& [kind, share] : least.at(architecture)) {
            CAPTURE(kind);
            CHECK(s.of(kind) >= share);
        }
    CHECK(double(s.same) / s.all >= least_same);
    std::string line =
        "same words as transformers: " + std::to_string(s.same) + " of " + std::to_string(s.all);
    for (const auto& [kind, counts] : s.right)
        line += "; " + kind + " " + std::to_string(counts.first) + "/" + std::to_string(counts.second);
    std::printf("%s: %s\n", architecture.c_str(), line.c_str());
}

double mean_surprise(const Box& b, const char* devices, const char* isa) {
    std::ifstream file(TEST_DATA "/box/text.txt");
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    const coterie::Model model(b.model);
    const size_t context = b.expected["context"];
    coterie_engine_options o = COTERIE_ENGINE_OPTIONS_INIT;
    o.devices = devices;
    o.isa = isa;
    o.context_tokens = int64_t(context);
    o.parallel = 4;
    const coterie::Engine engine(model, o);
    const std::vector<int32_t> tokens = model.tokenize(text);
    double sum = 0;
    size_t scored = 0;
    for (size_t at = 0; at + context <= tokens.size(); at += context) {
        const coterie_input input{nullptr, 0, tokens.data() + at, context};
        std::vector<float> logprobs(context);
        coterie::check([&](coterie_error* e) {
            return coterie_score(engine.get(), &input, 1, nullptr, logprobs.data(), context, nullptr, nullptr,
                                 e);
        });
        for (size_t t = context / 2 + 1; t < context; ++t, ++scored) sum -= double(logprobs[t]);
    }
    CHECK(scored == b.expected["scored"].get<size_t>());
    return sum / double(scored);
}

}  // namespace

TEST_CASE("the models in the box answer as they were measured, on every instruction set of this CPU") {
    const json devices = json::parse(coterie::text_of([](char* b, size_t c, size_t* n, coterie_error* e) {
        return coterie_devices(COTERIE_JSON, b, c, n, e);
    }))["devices"];
    const json& cpu = devices[0];
    for (const std::string isa : cpu["usable_isas"])
        for (const auto& [architecture, kinds] : least) {
            CAPTURE(isa, architecture);
            // All prompts on the best; the others differ from it in their products alone.
            const size_t stride = isa == cpu["isa"] ? 1 : 12;
            check(shares(box(architecture), "cpu", isa.c_str(), stride), architecture);
        }
}

TEST_CASE("the models in the box answer as they were measured, on several ranks") {
    for (const auto& [architecture, kinds] : least)
        for (const char* devices : {"cpu:1", "cpu:2", "cpu:3", "cpu:4"}) {
            CAPTURE(architecture, devices);
            check(shares(box(architecture), devices, nullptr, 8), architecture);
        }
}

TEST_CASE("the models in the box predict a text as well as transformers does with their weights") {
    for (const auto& [architecture, kinds] : least)
        for (const char* devices : {"cpu", "cpu:3"}) {
            CAPTURE(architecture, devices);
            const Box b = box(architecture);
            // The CPU rounds activations to 8 bits, so the two are near, not equal.
            CHECK(std::abs(mean_surprise(b, devices, nullptr) - b.expected["nll"].get<double>()) < 0.005);
        }
}
