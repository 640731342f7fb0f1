// logits, devices.
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "commands.h"

namespace tool {
namespace {

struct Arguments {
    std::string model, tokens, device = "cpu", isa;
    int threads = 0, chunk = 0;
    bool json = false, f16_cache = false;
};

int logits(const Arguments& a) {
    const coterie::Model model(a.model);
    std::vector<int32_t> tokens;
    for (const int64_t t : read_numbers(a.tokens)) tokens.push_back(int32_t(t));
    const size_t vocabulary = size_t(model.info().vocabulary);
    std::vector<float> rows(tokens.size() * vocabulary);
    coterie::check([&](coterie_error* e) {
        return coterie_logits(model.get(), a.device.c_str(), a.isa.empty() ? nullptr : a.isa.c_str(),
                              a.threads, tokens.data(), tokens.size(), a.chunk, a.f16_cache ? 0 : 1,
                              rows.data(), e);
    });
    if (a.json) {
        std::cout << "{\"tokens\": " << nlohmann::json(tokens).dump() << ", \"logits\": [";
        for (size_t i = 0; i < tokens.size(); ++i)
            std::cout << (i ? ", " : "")
                      << nlohmann::json(std::vector<float>(rows.begin() + long(i * vocabulary),
                                                           rows.begin() + long((i + 1) * vocabulary)))
                             .dump();
        std::cout << "]}\n";
        return 0;
    }
    for (size_t i = 0; i < tokens.size(); ++i) {
        const float* row = rows.data() + i * vocabulary;
        std::vector<int32_t> order(vocabulary);
        for (size_t t = 0; t < vocabulary; ++t) order[t] = int32_t(t);
        const size_t shown = std::min<size_t>(5, vocabulary);
        std::partial_sort(order.begin(), order.begin() + long(shown), order.end(),
                          [&](int32_t x, int32_t y) { return row[x] > row[y]; });
        std::cout << i << "\t" << tokens[i] << "\t";
        for (size_t k = 0; k < shown; ++k)
            std::cout << (k ? "  " : "") << order[k] << " "
                      << nlohmann::json(model.detokenize({order[k]}, COTERIE_WITH_SPECIAL)).dump() << " "
                      << row[order[k]];
        std::cout << "\n";
    }
    return 0;
}

int devices(const Arguments& a) {
    std::cout << coterie::text_of([&](char* b, size_t c, size_t* n, coterie_error* e) {
        return coterie_devices(a.json ? COTERIE_JSON : COTERIE_TEXT, b, c, n, e);
    });
    return 0;
}

}  // namespace

void add_model_commands(CLI::App& app, Action& action) {
    auto a = std::make_shared<Arguments>();
    CLI::App* c = app.add_subcommand("logits", "Logits of every position, to compare with other engines");
    c->add_option("model", a->model, "GGUF file")->required();
    c->add_option("--tokens", a->tokens, "Token ids: 1,2,3")->required();
    c->add_option("--device,--devices", a->device, "cpu, cpu:N, cuda, cuda:0,1 or reference");
    c->add_option("--isa", a->isa, "Instruction set of the CPU: avx512, avx2, portable");
    c->add_option("-t,--threads", a->threads, "Threads (0: all usable cores)");
    c->add_option("--chunk", a->chunk, "Tokens per step (0: all at once)");
    c->add_flag("--f16-cache", a->f16_cache, "Keys and values in F16 (default F32)");
    c->add_flag("--json", a->json, "{\"tokens\": [...], \"logits\": [[...], ...]}");
    c->callback([a, &action] { action = [a] { return logits(*a); }; });

    c = app.add_subcommand("devices", "The devices of this machine and what they can do");
    c->add_flag("--json", a->json, "As JSON");
    c->callback([a, &action] { action = [a] { return devices(*a); }; });
}

}  // namespace tool
