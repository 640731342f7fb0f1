// coterie._native: the C interface for Python, as it is. What makes it pleasant is in coterie/*.py.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <optional>

#include "handles.h"

namespace binding {
namespace {

using Tokens = py::array_t<int32_t, py::array::c_style | py::array::forcecast>;

// A text that the library writes into a buffer, asked for again until it fits. function(buffer, capacity,
// needed, error).
template <typename Function>
std::string text_from(Function&& function) {
    std::string text(512, '\0');
    for (;;) {
        size_t needed = 0;
        call([&](coterie_error* error) { return function(&text[0], text.size(), &needed, error); });
        const bool whole = needed < text.size();
        text.resize(whole ? needed : needed + 1);
        if (whole) return text;
    }
}

const char* or_null(const std::optional<std::string>& text) {
    return text ? text->c_str() : nullptr;
}

py::dict info(const Model& model) {
    coterie_model_info i = COTERIE_MODEL_INFO_INIT;
    call([&, of = model.handle()](coterie_error* e) { return coterie_model_get_info(of.get(), &i, e); });
    py::dict d;
    d["layers"] = i.layers;
    d["embedding"] = i.embedding;
    d["vocabulary"] = i.vocabulary;
    d["experts"] = i.experts;
    d["experts_used"] = i.experts_used;
    d["context_tokens"] = i.context_tokens;
    d["file_bytes"] = i.file_bytes;
    d["weight_bytes"] = i.weight_bytes;
    d["recurrent"] = i.recurrent != 0;
    d["has_chat_template"] = i.has_chat_template != 0;
    return d;
}

std::string metadata(const Model& model, const std::string& key) {
    return text_from([&, of = model.handle()](char* b, size_t c, size_t* n, coterie_error* e) {
        return coterie_model_metadata(of.get(), key.c_str(), b, c, n, e);
    });
}

std::string sampling_defaults(const Model& model) {
    return text_from([of = model.handle()](char* b, size_t c, size_t* n, coterie_error* e) {
        return coterie_model_sampling_defaults(of.get(), b, c, n, e);
    });
}

std::vector<int32_t> tokenize(const Model& model, const std::string& text, uint32_t flags) {
    std::vector<int32_t> tokens(text.size() + 8);
    const Handle<coterie_model> of = model.handle();
    for (;;) {
        size_t needed = 0;
        call([&](coterie_error* e) {
            return coterie_tokenize(of.get(), text.data(), text.size(), flags, tokens.data(), tokens.size(),
                                    &needed, e);
        });
        const bool whole = needed <= tokens.size();
        tokens.resize(needed);
        if (whole) return tokens;
    }
}

std::string detokenize(const Model& model, const Tokens& tokens, uint32_t flags) {
    const int32_t* data = tokens.data();
    const size_t count = size_t(tokens.size());
    return text_from([&, of = model.handle()](char* b, size_t c, size_t* n, coterie_error* e) {
        return coterie_detokenize(of.get(), data, count, flags, b, c, n, e);
    });
}

bool is_end(const Model& model, int32_t token) {
    return coterie_token_is_end(model.handle().get(), token) != 0;
}

std::string render(const Model& model, const std::string& messages, const std::optional<std::string>& tools,
                   const py::dict& options) {
    Texts texts;
    const coterie_chat_options o = chat_options(options, texts);
    return text_from([&, of = model.handle()](char* b, size_t c, size_t* n, coterie_error* e) {
        return coterie_chat_render(of.get(), messages.c_str(), or_null(tools), &o, b, c, n, e);
    });
}

// The plan as text and as JSON, and whether it fits.
py::tuple plan(const Model& model, const py::dict& options) {
    Texts texts;
    const coterie_plan_request r = plan_request(options, texts);
    int32_t fits = 0;
    const Handle<coterie_model> of = model.handle();
    const auto as = [&](int32_t format) {
        return text_from([&](char* b, size_t c, size_t* n, coterie_error* e) {
            return coterie_plan(of.get(), &r, format, &fits, b, c, n, e);
        });
    };
    std::string text = as(COTERIE_TEXT), json = as(COTERIE_JSON);
    return py::make_tuple(fits != 0, std::move(text), std::move(json));
}

std::string devices(int32_t format) {
    return text_from(
        [&](char* b, size_t c, size_t* n, coterie_error* e) { return coterie_devices(format, b, c, n, e); });
}

int32_t state(const Engine& engine) {
    return coterie_engine_state(engine.handle().get());
}

py::dict engine_statistics(const Engine& engine) {
    coterie_engine_statistics s = COTERIE_ENGINE_STATISTICS_INIT;
    call([&, of = engine.handle()](coterie_error* e) {
        return coterie_engine_get_statistics(of.get(), &s, e);
    });
    py::dict d;
    d["running"] = s.running;
    d["waiting"] = s.waiting;
    d["parallel"] = s.parallel;
    d["context_tokens"] = s.context_tokens;
    d["pages"] = s.pages;
    d["pages_held"] = s.pages_held;
    d["pages_cached"] = s.pages_cached;
    d["prompt_tokens"] = s.prompt_tokens;
    d["cached_tokens"] = s.cached_tokens;
    d["generated_tokens"] = s.generated_tokens;
    d["steps"] = s.steps;
    d["step_us"] = s.step_us;
    d["preemptions"] = s.preemptions;
    d["queue"] = s.queue;
    d["state_slots"] = s.state_slots;
    d["state_slots_used"] = s.state_slots_used;
    d["checkpoints"] = s.checkpoints;
    d["checkpoint_hits"] = s.checkpoint_hits;
    d["prefix_hit_rate"] = s.prefix_hit_rate;
    d["step_us_p50"] = s.step_us_p50;
    d["step_us_p99"] = s.step_us_p99;
    d["tokens_per_second"] = s.tokens_per_second;
    return d;
}

std::string describe(const Engine& engine, int32_t format) {
    return text_from([&, of = engine.handle()](char* b, size_t c, size_t* n, coterie_error* e) {
        return coterie_engine_describe(of.get(), format, b, c, n, e);
    });
}

// function(options, &generation, error)
template <typename Function>
std::unique_ptr<Generation> start(const py::dict& options, std::shared_ptr<Listener> listener,
                                  Function&& function) {
    Texts texts;
    const coterie_generation_options o = generation_options(options, texts);
    coterie_generation* generation = nullptr;
    call([&](coterie_error* e) { return function(&o, &generation, e); });
    return std::make_unique<Generation>(generation, std::move(listener));
}

std::unique_ptr<Generation> generate(const Engine& engine, const Tokens& tokens, const py::dict& options) {
    const int32_t* data = tokens.data();
    const size_t count = size_t(tokens.size());
    return start(options, engine.listener(), [&, of = engine.handle()](auto* o, auto** g, coterie_error* e) {
        return coterie_generate(of.get(), data, count, o, g, e);
    });
}

std::unique_ptr<Generation> complete(const Engine& engine, const std::string& prompt,
                                     const py::dict& options) {
    return start(options, engine.listener(), [&, of = engine.handle()](auto* o, auto** g, coterie_error* e) {
        return coterie_complete(of.get(), prompt.c_str(), o, g, e);
    });
}

std::unique_ptr<Generation> chat(const Engine& engine, const std::string& messages,
                                 const std::optional<std::string>& tools, const py::dict& chat,
                                 const py::dict& options) {
    Texts texts;
    const coterie_chat_options c = chat_options(chat, texts);
    return start(options, engine.listener(), [&, of = engine.handle()](auto* o, auto** g, coterie_error* e) {
        return coterie_chat(of.get(), messages.c_str(), or_null(tools), &c, o, g, e);
    });
}

std::unique_ptr<Generation> restore(const Engine& engine, const std::string& path, const py::dict& options) {
    return start(options, engine.listener(), [&, of = engine.handle()](auto* o, auto** g, coterie_error* e) {
        return coterie_engine_restore(of.get(), path.c_str(), o, g, e);
    });
}

std::unique_ptr<Generation> fork(const Generation& generation, const py::dict& options) {
    return start(options, generation.listener(),
                 [&, of = generation.handle()](auto* o, auto** g, coterie_error* e) {
                     return coterie_generation_fork(of.get(), o, g, e);
                 });
}

void save(const Generation& generation, const std::string& path) {
    call([&, of = generation.handle()](coterie_error* e) {
        return coterie_generation_save(of.get(), path.c_str(), e);
    });
}

std::vector<int32_t> tokens_of(const Generation& generation) {
    const Handle<coterie_generation> of = generation.handle();
    std::vector<int32_t> tokens;
    for (;;) {
        size_t needed = 0;
        call([&](coterie_error* e) {
            return coterie_generation_tokens(of.get(), tokens.data(), tokens.size(), &needed, e);
        });
        const bool whole = needed <= tokens.size();
        tokens.resize(needed);
        if (whole) return tokens;
    }
}

py::dict generation_statistics(const Generation& generation) {
    coterie_generation_statistics s = COTERIE_GENERATION_STATISTICS_INIT;
    call([&, of = generation.handle()](coterie_error* e) {
        return coterie_generation_get_statistics(of.get(), &s, e);
    });
    py::dict d;
    d["finish_reason"] = s.finish_reason;
    d["prompt_tokens"] = s.prompt_tokens;
    d["cached_tokens"] = s.cached_tokens;
    d["generated_tokens"] = s.generated_tokens;
    d["queue_us"] = s.queue_us;
    d["prefill_us"] = s.prefill_us;
    d["decode_us"] = s.decode_us;
    d["preemptions"] = s.preemptions;
    d["seed"] = s.seed;
    d["computed_tokens"] = s.computed_tokens;
    return d;
}

// Texts and arrays of tokens, kept for as long as the inputs are used.
struct Inputs {
    std::vector<std::string> texts;
    std::vector<Tokens> tokens;
    std::vector<coterie_input> all;
    explicit Inputs(const py::list& list) {
        texts.reserve(list.size());
        for (const py::handle& item : list) {
            if (py::isinstance<py::str>(item)) {
                texts.push_back(py::cast<std::string>(item));
                all.push_back({texts.back().data(), texts.back().size(), nullptr, 0});
            } else {
                tokens.push_back(py::cast<Tokens>(item));
                all.push_back({nullptr, 0, tokens.back().data(), size_t(tokens.back().size())});
            }
        }
    }
};

// function(options, error), waited for with progress.
template <typename Function>
void read(const py::dict& options, const py::object& progress, Function&& function) {
    coterie_reading_options o = reading_options(options);
    call_long(progress, [&](coterie_progress_fn tell, void* user, coterie_error* e) {
        o.progress = tell;
        o.progress_user = user;
        return function(&o, e);
    });
}

py::array_t<float> embed(const Engine& engine, const py::list& list, size_t width, const py::dict& options,
                         const py::object& progress) {
    const Inputs inputs(list);
    py::array_t<float> result({inputs.all.size(), width});
    float* to = result.mutable_data();
    read(options, progress, [&, of = engine.handle()](const coterie_reading_options* o, coterie_error* e) {
        return coterie_embed(of.get(), inputs.all.data(), inputs.all.size(), o, to, inputs.all.size() * width,
                             nullptr, e);
    });
    return result;
}

py::array_t<float> logits(const Engine& engine, const Tokens& tokens, size_t first, size_t vocabulary,
                          const py::dict& options, const py::object& progress) {
    const size_t count = size_t(tokens.size()), rows = count - std::min(first, count);
    const int32_t* data = tokens.data();
    py::array_t<float> result({rows, vocabulary});
    float* to = result.mutable_data();
    read(options, progress, [&, of = engine.handle()](const coterie_reading_options* o, coterie_error* e) {
        return coterie_read_logits(of.get(), data, count, first, o, to, rows * vocabulary, e);
    });
    return result;
}

// All logarithms in one array, and where each input ends in it.
py::tuple score(const Engine& engine, const py::list& list, const py::dict& options,
                const py::object& progress) {
    const Inputs inputs(list);
    std::vector<size_t> ends(inputs.all.size());
    size_t needed = 0;
    const coterie_reading_options o = reading_options(options);
    const Handle<coterie_engine> of = engine.handle();
    call([&](coterie_error* e) {
        return coterie_score(of.get(), inputs.all.data(), inputs.all.size(), &o, nullptr, 0, ends.data(),
                             &needed, e);
    });
    py::array_t<float> result(py::ssize_t{py::ssize_t(needed)});
    float* to = result.mutable_data();
    if (needed > 0)
        read(options, progress, [&](const coterie_reading_options* r, coterie_error* e) {
            return coterie_score(of.get(), inputs.all.data(), inputs.all.size(), r, to, needed, nullptr,
                                 nullptr, e);
        });
    return py::make_tuple(result, ends);
}

}  // namespace

PYBIND11_MODULE(_native, m) {
    m.doc() = "The C interface of Coterie; use the package coterie instead.";
    m.attr("version") = coterie_version();
    m.def("status_name", [](int status) { return coterie_status_name(status); });
    m.def("devices", devices);
    m.def("shutdown", shutdown);

    py::class_<Event>(m, "Event")
        .def_readonly("kind", &Event::kind)
        .def_readonly("token", &Event::token)
        .def_readonly("call", &Event::call)
        .def_readonly("finish_reason", &Event::finish_reason)
        .def_readonly("text", &Event::text)
        .def_readonly("id", &Event::id)
        .def_readonly("name", &Event::name)
        .def_readonly("logprob", &Event::logprob)
        .def_readonly("top", &Event::top)
        .def_readonly("done", &Event::done)
        .def_readonly("total", &Event::total);

    py::class_<Model>(m, "Model")
        .def(py::init<const std::string&, const py::object&>())
        .def("close", &Model::close)
        .def("info", info)
        .def("metadata", metadata)
        .def("sampling_defaults", sampling_defaults)
        .def("tokenize", tokenize)
        .def("detokenize", detokenize)
        .def("is_end", is_end)
        .def("render", render)
        .def("plan", plan);

    py::class_<Engine>(m, "Engine")
        .def(py::init<const Model&, const py::dict&, const py::object&, const py::object&,
                      const py::object&>())
        .def("close", &Engine::close)
        .def("state", state)
        .def("statistics", engine_statistics)
        .def("describe", describe)
        .def("generate", generate)
        .def("complete", complete)
        .def("chat", chat)
        .def("restore", restore)
        .def("embed", embed)
        .def("logits", logits)
        .def("score", score);

    py::class_<Generation>(m, "Generation")
        .def("next", &Generation::next)
        .def("cancel", &Generation::cancel)
        .def("close", &Generation::close)
        .def("fork", fork)
        .def("save", save)
        .def("tokens", tokens_of)
        .def("statistics", generation_statistics);
}

}  // namespace binding
