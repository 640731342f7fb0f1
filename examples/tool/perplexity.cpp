// perplexity: how well a model predicts a text. Counted as llama-perplexity does, so that figures compare:
// chunks of `context` tokens, what is left over is dropped, each chunk begins afresh (with BOS in its first
// place where the model wants one) and only the tokens of its second half are scored.
#include <cmath>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "commands.h"

namespace tool {
namespace {

struct Arguments {
    std::string model, text, devices = "cpu", isa, cache = "f16";
    int threads = 0, context = 512, parallel = 4;
    bool json = false;
};

struct Score {
    size_t chunks = 0, scored = 0;
    double nll = 0, error = 0;  // the mean's, in nats
};

std::vector<std::vector<int32_t>> chunks_of(const coterie::Model& model, const std::vector<int32_t>& tokens,
                                            size_t context) {
    if (tokens.size() < 2 * context)
        throw std::invalid_argument("the text has " + std::to_string(tokens.size()) +
                                    " tokens, too few for two chunks of " + std::to_string(context) +
                                    "; give a longer text or a smaller --ctx");
    // What the model puts before a text, if anything.
    const std::vector<int32_t> opening = model.tokenize("", COTERIE_ADD_SPECIAL);
    const bool begins = !opening.empty() && tokens.front() == opening.front();
    std::vector<std::vector<int32_t>> chunks;
    for (size_t at = 0; at + context <= tokens.size(); at += context) {
        chunks.emplace_back(tokens.begin() + long(at), tokens.begin() + long(at + context));
        if (begins) chunks.back().front() = opening.front();
    }
    return chunks;
}

Score score(const coterie::Engine& engine, const std::vector<std::vector<int32_t>>& chunks, size_t context,
            size_t at_once) {
    Score result;
    double sum = 0, squares = 0;
    std::vector<float> logprobs(at_once * context);
    for (size_t begin = 0; begin < chunks.size(); begin += at_once) {
        std::vector<coterie_input> inputs;
        for (size_t i = begin; i < std::min(chunks.size(), begin + at_once); ++i)
            inputs.push_back({nullptr, 0, chunks[i].data(), chunks[i].size()});
        coterie::check([&](coterie_error* e) {
            return coterie_score(engine.get(), inputs.data(), inputs.size(), nullptr, logprobs.data(),
                                 logprobs.size(), nullptr, nullptr, e);
        });
        for (size_t i = 0; i < inputs.size(); ++i)
            for (size_t t = context / 2 + 1; t < context; ++t) {
                const double surprise = -double(logprobs[i * context + t]);
                sum += surprise;
                squares += surprise * surprise;
                ++result.scored;
            }
        result.chunks += inputs.size();
        show_progress(nullptr, "scoring", result.chunks, chunks.size());
    }
    const double n = double(result.scored);
    result.nll = sum / n;
    result.error = std::sqrt(std::max(0.0, squares / n - result.nll * result.nll) / std::max(1.0, n - 1));
    return result;
}

int perplexity(const Arguments& a) {
    const coterie::Model model(a.model);
    const std::vector<int32_t> tokens = model.tokenize(read_file(a.text), COTERIE_ADD_SPECIAL);
    const auto chunks = chunks_of(model, tokens, size_t(a.context));
    coterie_engine_options o = COTERIE_ENGINE_OPTIONS_INIT;
    o.devices = a.devices.c_str();
    if (!a.isa.empty()) o.isa = a.isa.c_str();
    o.threads = a.threads;
    o.context_tokens = a.context;
    o.parallel = a.parallel;
    o.key_type = o.value_type = a.cache.c_str();
    o.no_prefix_reuse = 1;
    o.progress = show_progress;
    const coterie::Engine engine(model, o);
    const Score s = score(engine, chunks, size_t(a.context), size_t(a.parallel));
    const double value = std::exp(s.nll), error = value * s.error;
    if (a.json)
        std::cout << nlohmann::ordered_json{{"tokens", tokens.size()},
                                            {"context", a.context},
                                            {"chunks", s.chunks},
                                            {"scored", s.scored},
                                            {"nll", s.nll},
                                            {"perplexity", value},
                                            {"perplexity_error", error}}
                         .dump()
                  << "\n";
    else
        std::printf("perplexity %.4f +/- %.4f (%zu tokens, %zu chunks of %d, %zu tokens scored)\n", value,
                    error, tokens.size(), s.chunks, a.context, s.scored);
    return 0;
}

}  // namespace

void add_perplexity_command(CLI::App& app, Action& action) {
    auto a = std::make_shared<Arguments>();
    CLI::App* c = app.add_subcommand("perplexity",
                                     "How well a model predicts a text, counted as llama-perplexity does");
    c->add_option("model", a->model, "GGUF file")->required();
    c->add_option("text", a->text, "File of text (-: standard input)")->required();
    c->add_option("-c,--ctx", a->context, "Tokens of a chunk, whose second half is scored")
        ->check(CLI::Range(4, 1 << 20));
    c->add_option("-b,--parallel", a->parallel, "Chunks at once")->check(CLI::Range(1, 64));
    c->add_option("--device,--devices", a->devices, "cpu, cpu:N, cuda, cuda:0,1 or reference");
    c->add_option("--isa", a->isa, "Instruction set of the CPU: avx512, avx2, portable");
    c->add_option("-t,--threads", a->threads, "Threads (0: all usable cores)");
    c->add_option("--kv", a->cache, "Type of the cache: f16, q8_0, f32");
    c->add_flag("--json", a->json, "tokens, context, chunks, scored, nll, perplexity, perplexity_error");
    c->callback([a, &action] { action = [a] { return perplexity(*a); }; });
}

}  // namespace tool
