// inspect, verify, quantize, upcycle, synth.
#include <iostream>

#include "commands.h"

namespace tool {
namespace {

struct Arguments {
    std::string in, out, recipe, preset;
    int threads = 0, experts = 8, used = 2, layers = 0;
    uint64_t seed = 1;
    bool json = false, force = false, header_only = false, hash = false;
};

int inspect(const Arguments& a) {
    std::cout << coterie::text_of([&](char* b, size_t c, size_t* n, coterie_error* e) {
        return coterie_inspect(a.in.c_str(), a.json ? COTERIE_JSON : COTERIE_TEXT, b, c, n, e);
    });
    return 0;
}

int verify(const Arguments& a) {
    int32_t sound = 0;
    std::string report(1 << 20, '\0');
    size_t needed = 0;
    if (a.hash) {
        coterie::check([&](coterie_error* e) {
            return coterie_store_verify(a.in.c_str(), nullptr, show_progress, nullptr, &sound, &report[0],
                                        report.size(), &needed, e);
        });
        std::cout << report.c_str();
        return sound ? 0 : 1;
    }
    coterie::check([&](coterie_error* e) {
        return coterie_verify(a.in.c_str(), a.threads, a.json ? COTERIE_JSON : COTERIE_TEXT, show_progress,
                              nullptr, &sound, &report[0], report.size(), &needed, e);
    });
    std::cout << report.c_str();
    return sound ? 0 : 1;
}

int quantize(const Arguments& a) {
    coterie::check([&](coterie_error* e) {
        return coterie_quantize(a.in.c_str(), a.out.c_str(), a.recipe.c_str(), a.threads, a.force,
                                show_progress, nullptr, e);
    });
    std::cout << "wrote " << a.out << "\n";
    return 0;
}

int upcycle(const Arguments& a) {
    coterie::check([&](coterie_error* e) {
        return coterie_upcycle(a.in.c_str(), a.out.c_str(), a.experts, a.used, a.seed, show_progress, nullptr,
                               e);
    });
    std::cout << "wrote " << a.out << ": " << a.experts << " experts, " << a.used << " used\n";
    return 0;
}

int synthesise(const Arguments& a) {
    coterie::check([&](coterie_error* e) {
        return coterie_synthesise(a.preset.c_str(), a.out.c_str(), a.layers,
                                  a.recipe.empty() ? nullptr : a.recipe.c_str(), a.seed, a.header_only,
                                  show_progress, nullptr, e);
    });
    std::cout << "wrote " << a.out << "\n";
    return 0;
}

// synth takes an architecture or --like NAME; an architecture stands for its best-known model.
const char* preset_of(const std::string& architecture) {
    if (architecture == "qwen3moe") return "qwen3-30b";
    if (architecture == "qwen35moe") return "qwen3.5-35b";
    if (architecture == "qwen4exp") return "flash-next";
    if (architecture == "gpt-oss") return "gpt-oss-20b";
    return nullptr;
}

}  // namespace

void add_file_commands(CLI::App& app, Action& action) {
    auto a = std::make_shared<Arguments>();
    CLI::App* c = app.add_subcommand("inspect", "Metadata, tensors, types and parameter counts of a file");
    c->add_option("file", a->in, "GGUF file")->required();
    c->add_flag("--json", a->json, "As JSON");
    c->callback([a, &action] { action = [a] { return inspect(*a); }; });

    c = app.add_subcommand("verify", "Check a file's structure and every block's scales");
    c->add_option("file", a->in, "GGUF file; with --hash also a stored model's name")->required();
    c->add_flag("--hash", a->hash, "Compare the SHA-256 of every file of a stored model instead");
    c->add_option("-t,--threads", a->threads, "Threads (0: all usable cores)");
    c->add_flag("--json", a->json, "As JSON");
    c->callback([a, &action] { action = [a] { return verify(*a); }; });

    c = app.add_subcommand("quantize", "Write a model in another mixture of types");
    c->add_option("in", a->in, "GGUF file, best F16, BF16 or F32")->required();
    c->add_option("out", a->out, "File to write")->required();
    c->add_option("recipe", a->recipe, "Q4_K_M, Q8_0, F16, ...")->required();
    c->add_option("-t,--threads", a->threads, "Threads (0: all usable cores)");
    c->add_flag("--allow-requantize", a->force, "Also from types below 8 bits");
    c->callback([a, &action] { action = [a] { return quantize(*a); }; });

    c = app.add_subcommand("upcycle", "Make a mixture of experts of a dense model, with the same answers");
    c->add_option("dense", a->in, "GGUF file of a dense llama, qwen2 or qwen3")->required();
    c->add_option("out", a->out, "File to write")->required();
    c->add_option("--experts", a->experts, "Experts per layer");
    c->add_option("--used", a->used, "Experts used per token");
    c->add_option("--seed", a->seed, "Of the router's random weights");
    c->callback([a, &action] { action = [a] { return upcycle(*a); }; });

    c = app.add_subcommand("synth", "Write a model of random weights with real dimensions");
    auto architecture = std::make_shared<std::string>();
    auto out = std::make_shared<std::string>();
    // `synth --like NAME OUT` or `synth ARCHITECTURE OUT`.
    auto words = std::make_shared<std::vector<std::string>>();
    c->add_option("words", *words,
                  "[ARCHITECTURE] OUT: qwen3moe, qwen35moe, gpt-oss, ... and the file to write")
        ->required()
        ->expected(1, 2);
    c->add_option("--like", a->preset,
                  "qwen3-30b, qwen3-235b, qwen3.5-35b, qwen3.5-122b, flash-next, gpt-oss-20b, ...");
    c->add_option("--layers", a->layers, "How many layers (default: as the real one)");
    c->add_option("--type", a->recipe, "Q4_K_M, Q8_0, ... (default: as published)");
    c->add_option("--seed", a->seed, "Of the weights");
    c->add_flag("--header-only", a->header_only, "A sparse file of the true size, all weights zero");
    c->callback([a, words, &action] {
        a->out = words->back();
        if (words->size() == 2) {
            const std::string& name = words->front();
            if (a->preset.empty())
                a->preset = preset_of(name) ? preset_of(name) : name;
            else if (a->preset.find('-') == std::string::npos && preset_of(name))  // `qwen35moe --like 122b`
                a->preset = (name == "qwen35moe"  ? "qwen3.5-"
                             : name == "qwen3moe" ? "qwen3-"
                                                  : "") +
                            a->preset;
        }
        action = [a] { return synthesise(*a); };
    });
}

}  // namespace tool
