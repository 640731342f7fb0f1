// The functions behind the tool, and the list of devices.

#include "base/json.h"
#include "convert/quantize.h"
#include "convert/synth.h"
#include "convert/upcycle.h"
#include "coterie/coterie_experimental.h"
#include "device/cpu/isa.h"
#include "engine/placement.h"
#include "gguf/inspect.h"
#include "gguf/verify.h"
#include "guard.h"
#include "handles.h"

using namespace coterie;
using namespace coterie::capi;

namespace {

quant::Recipe recipe_of(const char* name) {
    const std::optional<quant::Recipe> recipe = quant::recipe_named(need_text(name, "recipe"));
    if (recipe) return *recipe;
    std::string known;
    for (const quant::Recipe r : quant::recipes())
        known += std::string(known.empty() ? "" : ", ") + quant::recipe_name(r);
    fail(Status::invalid_argument, "'{}' is not a mixture of types; known are {}", name, known);
}

Json event_json(const text::AnswerEvent& e) {
    switch (e.kind) {
        case text::AnswerEvent::Kind::reasoning:
            return {{"type", "reasoning"}, {"text", e.text}};
        case text::AnswerEvent::Kind::content:
            return {{"type", "content"}, {"text", e.text}};
        case text::AnswerEvent::Kind::call_begin:
            return {{"type", "tool_call"}, {"call", e.call}, {"id", e.id}, {"name", e.name}};
        case text::AnswerEvent::Kind::call_arguments:
            return {{"type", "arguments"}, {"call", e.call}, {"text", e.text}};
        case text::AnswerEvent::Kind::call_end:
            return {{"type", "tool_call_end"}, {"call", e.call}, {"complete", e.complete}};
    }
    return {};
}

}  // namespace

coterie_status coterie_inspect(const char* path, int32_t format, char* buffer, size_t capacity,
                               size_t* needed, coterie_error* error) {
    return guard(error, [&] {
        const gguf::File file = gguf::File::open(std::string(need_text(path, "path")));
        write_text(format == COTERIE_JSON ? gguf::inspect_json(file) + "\n" : gguf::inspect_text(file),
                   buffer, capacity, needed);
    });
}

coterie_status coterie_verify(const char* path, int32_t threads, int32_t format, coterie_progress_fn progress,
                              void* progress_user, int32_t* sound, char* buffer, size_t capacity,
                              size_t* needed, coterie_error* error) {
    return guard(error, [&] {
        const gguf::File file = gguf::File::open(std::string(need_text(path, "path")));
        const gguf::Verification result = gguf::verify(file, threads, progress_of(progress, progress_user));
        if (sound) *sound = result.ok();
        write_text(format == COTERIE_JSON ? gguf::verification_json(file, result)
                                          : gguf::verification_text(file, result),
                   buffer, capacity, needed);
    });
}

coterie_status coterie_quantize(const char* in_path, const char* out_path, const char* recipe,
                                int32_t threads, int32_t allow_requantise, coterie_progress_fn progress,
                                void* progress_user, coterie_error* error) {
    return guard(error, [&] {
        convert::QuantizeOptions o;
        o.recipe = recipe_of(recipe);
        o.threads = threads;
        o.allow_requantise = allow_requantise != 0;
        convert::quantize(std::string(need_text(in_path, "in_path")),
                          std::string(need_text(out_path, "out_path")), o,
                          progress_of(progress, progress_user));
    });
}

coterie_status coterie_upcycle(const char* dense_path, const char* out_path, int32_t experts, int32_t used,
                               uint64_t seed, coterie_progress_fn progress, void* progress_user,
                               coterie_error* error) {
    return guard(error, [&] {
        convert::upcycle(std::string(need_text(dense_path, "dense_path")),
                         std::string(need_text(out_path, "out_path")), {experts, used, seed},
                         progress_of(progress, progress_user));
    });
}

coterie_status coterie_synthesise(const char* preset, const char* out_path, int32_t layers,
                                  const char* recipe, uint64_t seed, int32_t header_only,
                                  coterie_progress_fn progress, void* progress_user, coterie_error* error) {
    return guard(error, [&] {
        convert::ModelShape shape = convert::preset(need_text(preset, "preset"));
        if (layers > 0) shape.layers = layers;
        convert::SynthOptions o;
        if (recipe) o.recipe = recipe_of(recipe);
        o.seed = seed;
        o.header_only = header_only != 0;
        convert::synth(shape, std::string(need_text(out_path, "out_path")), o,
                       progress_of(progress, progress_user));
    });
}

coterie_status coterie_logits(const coterie_model* model, const char* devices, const char* isa,
                              int32_t threads, const int32_t* tokens, size_t count, int32_t chunk,
                              int32_t exact, float* logits, coterie_error* error) {
    return guard(error, [&] {
        const ModelData& data = *need(model, "model").data;
        if (count == 0 || !tokens || !logits)
            fail(Status::invalid_argument, "give tokens and room for their logits");
        if (count > 1 << 20)
            fail(Status::invalid_argument, "{} tokens are too many; {} at most", count, 1 << 20);
        const int64_t rows = chunk > 0 ? std::min<int64_t>(chunk, int64_t(count)) : int64_t(count);
        RunnerShape shape;
        shape.step_rows = shape.step_outputs = rows;
        shape.pages = int32_t((int64_t(count) + shape.page_tokens - 1) / shape.page_tokens);
        shape.state_slots = 1;
        shape.key_type = shape.value_type = exact ? Type::F32 : Type::F16;
        shape.context_tokens = int64_t(count);
        Runner runner(data.model, place(*data.model, {devices ? devices : "", isa ? isa : "", threads}),
                      shape);
        Step step;
        step.page_tokens = shape.page_tokens;
        step.pages_per_sequence = shape.pages;
        for (int32_t page = 0; page < shape.pages; ++page) step.pages.push_back(page);
        const size_t vocabulary = size_t(data.model->numbers().vocabulary);
        for (size_t at = 0; at < count; at += size_t(rows)) {
            const int32_t n = int32_t(std::min<size_t>(size_t(rows), count - at));
            step.tokens.assign(tokens + at, tokens + at + n);
            step.positions.clear();
            step.outputs.clear();
            step.span_of.assign(size_t(n), 0);
            step.spans.assign(1, {0, 0, 0, n, int32_t(at)});
            for (int32_t i = 0; i < n; ++i) {
                step.positions.push_back(int32_t(at) + i);
                step.outputs.push_back(i);
            }
            runner.run(step, {logits + at * vocabulary, size_t(n) * vocabulary});
        }
    });
}

coterie_status coterie_parse_answer(const coterie_model* model, const char* text, const char* tools_json,
                                    int32_t thinking_open, char* buffer, size_t capacity, size_t* needed,
                                    coterie_error* error) {
    return guard(error, [&] {
        text::AnswerOptions o;
        o.thinking_open = thinking_open != 0;
        o.tools = tools_json != nullptr;
        if (tools_json) o.tools_json = tools_json;
        text::AnswerParser parser(need(model, "model").data->answer_format(nullptr), o);
        std::vector<text::AnswerEvent> events;
        parser.push(need_text(text, "text"), events);
        parser.finish(events);
        Json list = Json::array();
        for (const text::AnswerEvent& e : events) list.push_back(event_json(e));
        write_text(list.dump(2), buffer, capacity, needed);
    });
}

coterie_status coterie_render_template(const char* chat_template, const char* messages_json,
                                       const char* tools_json, const coterie_chat_options* options,
                                       const char* bos, const char* eos, char* buffer, size_t capacity,
                                       size_t* needed, coterie_error* error) {
    return guard(error, [&] {
        const text::ChatTemplate t(std::string(need_text(chat_template, "chat_template")), bos ? bos : "",
                                   eos ? eos : "");
        write_text(t.render(need_text(messages_json, "messages_json"), tools_json ? tools_json : "",
                            chat_options(read_options(options, "options"))),
                   buffer, capacity, needed);
    });
}
