// Generations: requests in, events out.
#include <chrono>
#include <random>

#include "engine/grammar_constraint.h"
#include "guard.h"
#include "handles.h"
#include "text/answer_grammar.h"
#include "text/json_schema.h"

using namespace coterie;
using namespace coterie::capi;

namespace {

uint64_t fresh_seed() {
    std::random_device device;
    const uint64_t seed = (uint64_t(device()) << 32) | device();
    return seed != 0 ? seed : 1;
}

GenerationRequest read_request(const coterie_generation_options& o, const ModelData& model) {
    GenerationRequest r;
    SamplingOptions& s = r.sampling;
    s = model.sampling_defaults();
    if (o.temperature != 0) s.temperature = o.temperature;
    if (o.top_p != 0) s.top_p = o.top_p;
    if (o.min_p != 0) s.min_p = o.min_p;
    if (o.typical_p != 0) s.typical_p = o.typical_p;
    if (o.top_k != 0) s.top_k = std::max(o.top_k, 0);
    if (o.repeat_penalty != 0) s.repeat_penalty = o.repeat_penalty;
    s.presence_penalty = o.presence_penalty;
    s.frequency_penalty = o.frequency_penalty;
    if (o.penalty_tokens != 0) s.penalty_tokens = o.penalty_tokens;
    s.seed = o.seed != 0 ? o.seed : fresh_seed();
    s.check();
    if (o.flags & COTERIE_GREEDY) s.temperature = 0;
    if (o.flags & COTERIE_LOGPROBS) r.logprobs = s.logprobs = o.top_logprobs;
    if (o.bias_count > 0) need(o.bias, "options.bias");
    for (size_t i = 0; i < o.bias_count; ++i) s.bias.emplace_back(o.bias[i].token, o.bias[i].value);
    if (o.stop_count > 0) need(o.stop, "options.stop");
    for (size_t i = 0; i < o.stop_count; ++i) r.stop.emplace_back(need_text(o.stop[i], "options.stop[i]"));
    if (o.max_tokens < 0 || o.time_limit_ms < 0)
        fail(Status::invalid_argument, "max_tokens and time_limit_ms can't be negative");
    r.max_tokens = o.max_tokens > 0 ? o.max_tokens : -1;
    r.ignore_end = (o.flags & COTERIE_IGNORE_END) != 0;
    r.special_text = (o.flags & COTERIE_SPECIAL_TEXT) != 0;
    r.priority = o.priority;
    if (o.draft_tokens < -1)
        fail(Status::invalid_argument, "draft_tokens is {}; -1 is the least", o.draft_tokens);
    r.drafts = o.draft_tokens;
    r.time_limit = std::chrono::milliseconds(o.time_limit_ms);
    r.prefill_progress = (o.flags & COTERIE_PREFILL) != 0;
    if (o.flags & COTERIE_SHIFT_CONTEXT) r.context_policy = ContextPolicy::shift;
    return r;
}

// A schema governs the content: with a format its grammar has the family's thinking and markup before it.
std::shared_ptr<const text::Grammar> read_grammar(const coterie_generation_options& o,
                                                  const text::AnswerFormat* format, const Reading& reading) {
    const text::ThinkingStart thinking = reading.thinking;
    const std::string_view choice = o.tool_choice ? o.tool_choice : "auto";
    if (choice != "auto" && choice != "none") {
        if (!format || reading.answer.tools_json.empty())
            fail(Status::invalid_argument, "tool_choice '{}' needs a chat with tools", choice);
        if (o.json_schema || o.grammar)
            fail(Status::invalid_argument, "tool_choice '{}' can't be combined with a schema or a grammar",
                 choice);
        text::ToolChoice c;
        if (choice != "required") c.kind = text::ToolChoice::Kind::named, c.name = choice;
        return text::tool_call_grammar(*format, reading.answer.tools_json, c, {thinking, {}});
    }
    if (o.json_schema && o.grammar) fail(Status::invalid_argument, "give json_schema or grammar, not both");
    if (o.json_schema) {
        const std::string_view schema = std::string_view(o.json_schema) == "{}" ? "" : o.json_schema;
        if (format) return text::content_grammar(*format, schema, {thinking, {}});
        return schema.empty() ? text::any_json_grammar(true) : text::json_schema_grammar(schema);
    }
    if (o.grammar) return text::Grammar::from_gbnf(o.grammar);
    return nullptr;
}

// Starts an answer with submit(request), sorted into fields when the reading has a format.
template <typename Submit>
coterie_generation* start(const std::shared_ptr<EngineData>& engine, const coterie_generation_options& o,
                          Reading reading, Submit&& submit) {
    GenerationRequest request = read_request(o, *engine->model);
    const text::AnswerFormat* format = reading.format ? &*reading.format : nullptr;
    if (auto grammar = read_grammar(o, format, reading)) {
        const bool waits = o.grammar && format && reading.answer.thinking_open;
        const std::string until = waits ? format->think_close : std::string();
        request.constraint = std::make_unique<GrammarConstraint>(
            std::move(grammar), engine->model->token_trie(), engine->model->tokenizer, until);
    }
    auto handle = std::make_unique<coterie_generation>();
    handle->seed = request.sampling.seed;
    if (format) {
        // Tags that are control tokens must reach the parser as text.
        const text::Tokenizer& tokenizer = *engine->model->tokenizer;
        request.special_text |= format->harmony;
        for (const std::string& tag : {format->think_open, format->calls_open, format->call_open}) {
            const std::optional<int32_t> id = tag.empty() ? std::nullopt : tokenizer.find(tag);
            request.special_text |= id && tokenizer.is_special(*id);
        }
        handle->parser.emplace(*format, reading.answer);
    }
    handle->engine = engine;
    handle->reading = std::move(reading);
    handle->generation = submit(std::move(request));
    if (handle->parser) {  // what was read before a fork is not told again
        std::vector<text::AnswerEvent> events;
        handle->parser->push(handle->generation->earlier_text(), events);
    }
    return handle.release();
}

coterie_generation* start(const std::shared_ptr<EngineData>& engine, const coterie_generation_options& o,
                          std::vector<int32_t> prompt, Reading reading = {}) {
    return start(engine, o, std::move(reading), [&](GenerationRequest request) {
        request.prompt = std::move(prompt);
        return engine->engine->submit(std::move(request));
    });
}

int32_t event_kind(text::AnswerEvent::Kind kind) {
    switch (kind) {
        case text::AnswerEvent::Kind::reasoning:
            return COTERIE_EVENT_REASONING;
        case text::AnswerEvent::Kind::content:
            return COTERIE_EVENT_CONTENT;
        case text::AnswerEvent::Kind::call_begin:
            return COTERIE_EVENT_TOOL_CALL;
        case text::AnswerEvent::Kind::call_arguments:
            return COTERIE_EVENT_ARGUMENTS;
        case text::AnswerEvent::Kind::call_end:
            return COTERIE_EVENT_TOOL_CALL_END;
    }
    return COTERIE_EVENT_NONE;
}

coterie_event take_sorted(coterie_generation& g) {
    text::AnswerEvent e = std::move(g.events.front());
    g.events.pop_front();
    g.text = std::move(e.text);
    g.id = std::move(e.id);
    g.name = std::move(e.name);
    coterie_event event{};
    event.kind = event_kind(e.kind);
    event.call = e.call;
    event.text = g.text.c_str();
    event.length = g.text.size();
    event.id = g.id.c_str();
    event.name = g.name.c_str();
    return event;
}

coterie_event token_event(coterie_generation& g, Piece piece) {
    coterie_event event{};
    event.kind = COTERIE_EVENT_TOKEN;
    event.token = piece.token;
    g.text = std::move(piece.text);
    event.text = g.text.c_str();
    event.length = g.text.size();
    g.top.clear();
    if (piece.logprobs) {
        event.logprob = piece.logprobs->logprob;
        for (const auto& [token, logprob] : piece.logprobs->best) g.top.push_back({token, logprob});
    }
    event.top = g.top.data();
    event.top_count = g.top.size();
    return event;
}

coterie_event prefill_event(const coterie_generation& g, const Piece& piece) {
    coterie_event event{};
    event.kind = COTERIE_EVENT_PREFILL;
    event.text = "";
    event.done = piece.computed;
    event.total = g.generation->statistics().prompt_tokens;
    return event;
}

coterie_event finished_event(coterie_generation& g) {
    const FinishReason reason = g.generation->reason();
    if (reason == FinishReason::failed) throw g.generation->failure().value();
    coterie_event event{};
    event.kind = COTERIE_EVENT_FINISHED;
    event.finish_reason = int32_t(reason);
    g.text = g.generation->stop_string();
    event.text = g.text.c_str();
    event.length = g.text.size();
    return event;
}

coterie_event next_event(coterie_generation& g, int64_t timeout_ms) {
    using std::chrono::milliseconds;
    using Clock = std::chrono::steady_clock;
    const Clock::time_point end =
        Clock::now() + milliseconds(std::clamp<int64_t>(timeout_ms, 0, int64_t(1) << 40));
    for (;;) {
        if (!g.events.empty()) return take_sorted(g);
        const milliseconds left =
            timeout_ms < 0
                ? milliseconds(-1)
                : std::max(milliseconds(0), std::chrono::duration_cast<milliseconds>(end - Clock::now()));
        Piece piece;
        switch (g.generation->next(piece, left)) {
            case Generation::Next::timeout:
                return {};
            case Generation::Next::piece: {
                if (piece.token < 0) return prefill_event(g, piece);
                if (!g.parser) return token_event(g, std::move(piece));
                std::vector<text::AnswerEvent> events;
                g.parser->push(piece.text, events);
                g.events.insert(g.events.end(), events.begin(), events.end());
                if (piece.logprobs) return token_event(g, std::move(piece));
                break;
            }
            case Generation::Next::finished: {
                if (!g.parser || g.parser_finished) return finished_event(g);
                g.parser_finished = true;
                std::vector<text::AnswerEvent> events;
                g.parser->finish(events);
                g.events.insert(g.events.end(), events.begin(), events.end());
                break;
            }
        }
    }
}

}  // namespace

coterie_status coterie_generate(coterie_engine* engine, const int32_t* tokens, size_t count,
                                const coterie_generation_options* options, coterie_generation** generation,
                                coterie_error* error) {
    return guard(error, [&] {
        need(generation, "generation") = nullptr;
        if (count > 0) need(tokens, "tokens");
        *generation = start(need(engine, "engine").data, read_options(options, "options"),
                            std::vector<int32_t>(tokens, tokens + count));
    });
}

coterie_status coterie_complete(coterie_engine* engine, const char* prompt,
                                const coterie_generation_options* options, coterie_generation** generation,
                                coterie_error* error) {
    return guard(error, [&] {
        need(generation, "generation") = nullptr;
        const auto& data = need(engine, "engine").data;
        const std::string_view text = need_text(prompt, "prompt");
        *generation =
            start(data, read_options(options, "options"), data->model->tokenizer->encode(text, true, true));
    });
}

coterie_status coterie_chat(coterie_engine* engine, const char* messages_json, const char* tools_json,
                            const coterie_chat_options* chat, const coterie_generation_options* options,
                            coterie_generation** generation, coterie_error* error) {
    return guard(error, [&] {
        need(generation, "generation") = nullptr;
        const auto& data = need(engine, "engine").data;
        const coterie_chat_options c = read_options(chat, "chat");
        const coterie_generation_options o = read_options(options, "options");
        const std::string prompt = data->model->render(messages_json, tools_json, c);
        const text::Tokenizer& tokenizer = *data->model->tokenizer;
        std::vector<int32_t> tokens = tokenizer.encode(prompt, true, true);
        // A template that writes the BOS itself must not get a second one.
        if (tokens.size() > 1 && tokenizer.bos() >= 0 && tokens[0] == tokenizer.bos() &&
            tokens[1] == tokenizer.bos())
            tokens.erase(tokens.begin());
        Reading reading;
        const text::AnswerFormat format = data->model->answer_format(c.chat_template);
        reading.thinking = text::thinking_start(format, prompt);
        reading.answer.thinking_open = text::prompt_opens_thinking(format, prompt);
        const bool no_calls = o.tool_choice && std::string_view(o.tool_choice) == "none";
        reading.answer.tools = tools_json != nullptr && !no_calls;
        if (tools_json) reading.answer.tools_json = tools_json;
        // The prompt grows from turn to turn, so ids differ within a conversation.
        reading.answer.id_seed = std::hash<std::string>{}(prompt);
        if (!(o.flags & COTERIE_RAW)) reading.format = format;
        *generation = start(data, o, std::move(tokens), std::move(reading));
    });
}

coterie_status coterie_generation_fork(coterie_generation* generation,
                                       const coterie_generation_options* options, coterie_generation** fork,
                                       coterie_error* error) {
    return guard(error, [&] {
        need(fork, "fork") = nullptr;
        const coterie_generation& parent = need(generation, "generation");
        const coterie_generation_options o = read_options(options, "options");
        Reading reading = parent.reading;
        if (o.flags & COTERIE_RAW) reading.format.reset();
        *fork = start(parent.engine, o, std::move(reading), [&](GenerationRequest request) {
            return parent.engine->engine->fork(*parent.generation, std::move(request));
        });
    });
}

coterie_status coterie_generation_save(coterie_generation* generation, const char* path,
                                       coterie_error* error) {
    return guard(error, [&] {
        const coterie_generation& g = need(generation, "generation");
        g.engine->engine->save(*g.generation, std::string(need_text(path, "path")));
    });
}

coterie_status coterie_engine_restore(coterie_engine* engine, const char* path,
                                      const coterie_generation_options* options,
                                      coterie_generation** generation, coterie_error* error) {
    return guard(error, [&] {
        if (generation) *generation = nullptr;
        const auto& data = need(engine, "engine").data;
        const coterie_generation_options o = read_options(options, "options");
        std::vector<int32_t> tokens = data->engine->restore(std::string(need_text(path, "path")));
        if (generation) *generation = start(data, o, std::move(tokens));
    });
}

coterie_status coterie_generation_tokens(const coterie_generation* generation, int32_t* tokens,
                                         size_t capacity, size_t* needed, coterie_error* error) {
    return guard(error, [&] {
        const std::vector<int32_t> all = need(generation, "generation").generation->tokens();
        need(needed, "needed") = all.size();
        if (capacity > 0) need(tokens, "tokens");
        std::copy_n(all.begin(), std::min(capacity, all.size()), tokens);
    });
}

coterie_status coterie_generation_next(coterie_generation* generation, coterie_event* event,
                                       int64_t timeout_ms, coterie_error* error) {
    return guard(error, [&] {
        need(event, "event");
        write_result(event, next_event(need(generation, "generation"), timeout_ms), "event");
    });
}

void coterie_generation_cancel(coterie_generation* generation) {
    if (generation) generation->generation->cancel();
}

void coterie_generation_destroy(coterie_generation* generation) {
    if (generation) generation->generation->cancel();
    delete generation;
}

coterie_status coterie_generation_get_statistics(const coterie_generation* generation,
                                                 coterie_generation_statistics* statistics,
                                                 coterie_error* error) {
    return guard(error, [&] {
        const coterie_generation& g = need(generation, "generation");
        const GenerationStatistics s = g.generation->statistics();
        coterie_generation_statistics result{};
        result.finish_reason = int32_t(g.generation->reason());
        result.prompt_tokens = s.prompt_tokens;
        result.cached_tokens = s.cached_tokens;
        result.generated_tokens = s.generated_tokens;
        result.queue_us = s.queue_us;
        result.prefill_us = s.prefill_us;
        result.decode_us = s.decode_us;
        result.preemptions = s.preemptions;
        result.seed = g.seed;
        result.computed_tokens = s.computed_tokens;
        result.drafted_tokens = s.drafted_tokens;
        result.accepted_tokens = s.accepted_tokens;
        write_result(statistics, result, "statistics");
    });
}
