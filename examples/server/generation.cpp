// Starting answers, fitting conversations into the context, gathering events into pieces.
#include "generation.h"

#include <fmt/format.h>

namespace server {

Answer::Answer(ModelPool& pool, Metrics& metrics, Question question, std::function<bool()> gone)
    : metrics_(metrics), question_(std::move(question)), gone_(std::move(gone)) {
    Question& q = question_;
    pool.health().admit();
    Sampling asked;
    asked.read(q.options);  // refuses wrong types before anything is loaded
    lease_ = pool.acquire(q.model, q.keep_alive, asked.context, gone_);
    const Facts& facts = lease_->facts;
    for (const json* layer : {&q.base, &lease_->defaults, &q.options}) q.sampling.read(*layer);
    if (facts.embeds) throw HttpError(400, fmt::format("\"{}\" does not support {}", q.model, q.ability));
    if (q.thinking == Thinking::on && !facts.thinks() && !q.complete)
        throw HttpError(400, fmt::format("\"{}\" does not support thinking", q.model));
    if (!q.tools.is_null() && !facts.takes_tools() && q.chat_template.empty())
        throw HttpError(400, fmt::format("registry.ollama.ai/library/{} does not support tools", facts.name));
    if (q.logprobs) q.sampling.options.flags |= COTERIE_LOGPROBS;
    if (const std::string own = facts.stored.value("template", "");
        q.chat_template.empty() && !own.empty() && own == facts.chat_template)
        q.chat_template = own;  // the store's: the engine knows the file's only
    q.sampling.options.top_logprobs = q.top_logprobs;
    if (q.store_messages) put_store_messages();
    if (!q.tools.is_null()) tools_ = text_of(q.tools);
    if (!q.template_variables.is_null()) variables_ = text_of(q.template_variables);
    if (!q.suffix.empty()) q.tokens = infill_tokens(*lease_, q.prompt, q.suffix);
    fit_context();
    put_before();
    generation_.emplace(begin());
}

coterie::Generation Answer::begin() {
    const Question& q = question_;
    const coterie_generation_options& options = question_.sampling.finished();
    if (!q.complete) return lease_->engine->chat(messages_, tools_, chat_options(), options);
    if (!q.tokens.empty()) return lease_->engine->generate(q.tokens, options);
    return lease_->engine->complete(q.prompt, options);
}

Answer::~Answer() {
    if (!generation_) return;
    if (!ended_) {
        generation_->cancel();
        ++metrics_.cancelled;
    }
    try {
        const coterie_generation_statistics s = generation_->statistics();
        metrics_.prompt_tokens += s.prompt_tokens - s.cached_tokens;
        metrics_.cached_tokens += s.cached_tokens;
        metrics_.generated_tokens += s.generated_tokens;
        metrics_.prompt_us += s.prefill_us;
        metrics_.generation_us += s.decode_us;
    } catch (const std::exception&) {
        ended_ = true;  // counters only
    }
}

coterie_chat_options Answer::chat_options() const {
    const Question& q = question_;
    coterie_chat_options o = COTERIE_CHAT_OPTIONS_INIT;
    o.thinking = q.thinking == Thinking::on ? 1 : q.thinking == Thinking::off ? -1 : 0;
    if (!q.effort.empty()) o.reasoning_effort = q.effort.c_str();
    if (!q.chat_template.empty()) o.chat_template = q.chat_template.c_str();
    if (!variables_.empty()) o.variables_json = variables_.c_str();
    o.continue_last_message = q.continue_last ? 1 : 0;
    return o;
}

std::string Answer::render() const {
    return lease_->model->render(messages_, tools_, chat_options());
}

void Answer::put_store_messages() {
    const json& stored = lease_->facts.stored;
    json before = json::array();
    const std::string system = stored.value("system", "");
    const bool has_system =
        !question_.messages.empty() && question_.messages[0].value("role", "") == "system";
    if (!system.empty() && !has_system) before.push_back({{"role", "system"}, {"content", system}});
    for (const json& message : stored.value("messages", json::array())) before.push_back(message);
    for (json& message : question_.messages) before.push_back(std::move(message));
    question_.messages = std::move(before);
}

// The oldest messages that are not the system's are forgotten until the rest fits; the last one always stays.
void Answer::fit_context() {
    Question& q = question_;
    const int64_t most =
        q.sampling.context > 0 ? std::min(q.sampling.context, lease_->context) : lease_->context;
    const auto count = [&](const std::string& text) {
        // A token has a byte at least: short texts need no counting.
        if (int64_t(text.size()) + 8 < most && most == lease_->context) return int64_t(text.size());
        return int64_t(lease_->model->tokenize(text, COTERIE_ADD_SPECIAL | COTERIE_PARSE_SPECIAL).size());
    };
    int64_t tokens = 0;
    if (q.complete) {
        tokens = q.tokens.empty() ? count(q.prompt) : int64_t(q.tokens.size());
    } else {
        for (;;) {
            messages_ = text_of(q.messages);
            prompt_ = render();
            tokens = count(prompt_) + int64_t(q.before.size());
            // Of earlier turns the beginning goes first.
            if (tokens >= most && q.truncate && !q.before.empty()) {
                const size_t excess = std::min(q.before.size(), size_t(tokens - most + most / 4));
                q.before.erase(q.before.begin(), q.before.begin() + ptrdiff_t(excess));
                tokens -= int64_t(excess);
                truncated_ = true;
            }
            if (tokens < most || !q.truncate || q.messages.size() < 2) break;
            auto oldest = q.messages.begin();
            while (oldest != q.messages.end() - 1 && oldest->value("role", "") == "system") ++oldest;
            if (oldest == q.messages.end() - 1) break;
            q.messages.erase(oldest);
            truncated_ = true;
        }
    }
    if (tokens >= most)
        throw HttpError(
            400,
            fmt::format("the prompt has {} tokens, and the context of {} has room for {}; shorten it "
                        "or ask for a larger num_ctx",
                        tokens, q.model, most - 1),
            "exceed_context_size_error");
    int64_t& limit = q.sampling.options.max_tokens;
    // With a context that moves on, a model that repeats itself would never end.
    if (limit == 0 && (q.sampling.options.flags & COTERIE_SHIFT_CONTEXT)) limit = 10 * most;
    if (most < lease_->context) limit = limit > 0 ? std::min(limit, most - tokens) : most - tokens;
}

// Ollama's `context`: the tokens of earlier turns, put before this one's prompt. The engine renders chats
// itself, so it gets a template that gives just this text, and that shows, in a comment, how the model marks
// its thinking.
void Answer::put_before() {
    Question& q = question_;
    if (q.before.empty() || q.complete) return;
    const std::string bos = [&] {
        const auto id = lease_->facts.model_info.find("tokenizer.ggml.bos_token_id");
        return id != lease_->facts.model_info.end() && id->is_number_integer()
                   ? lease_->model->detokenize({id->get<int32_t>()}, COTERIE_WITH_SPECIAL)
                   : std::string();
    }();
    if (!bos.empty() && prompt_.compare(0, bos.size(), bos) == 0) prompt_.erase(0, bos.size());
    prompt_ = lease_->model->detokenize(q.before, COTERIE_WITH_SPECIAL) + prompt_;
    std::string shown = q.chat_template.empty() ? lease_->facts.chat_template : q.chat_template;
    for (size_t at = 0; (at = shown.find_first_of("{}#%", at)) != std::string::npos;) shown.erase(at, 1);
    q.chat_template = "{# " + shown + " #}{{ coterie_prompt }}";
    variables_ = text_of({{"coterie_prompt", prompt_}});
}

int64_t Answer::total_ns() const {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start_).count();
}

void Answer::add_logprob(const coterie_event& event) {
    const auto entry = [](const std::string& text, float logprob) {
        json bytes = json::array();
        for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
        return json{{"token", text}, {"logprob", logprob}, {"bytes", std::move(bytes)}};
    };
    const auto text_of_token = [&](int32_t token) {
        return lease_->model->detokenize({token}, COTERIE_WITH_SPECIAL);
    };
    json one = entry(text_of_token(event.token), event.logprob);
    one["top_logprobs"] = json::array();
    for (size_t i = 0; i < event.top_count; ++i)
        one["top_logprobs"].push_back(entry(text_of_token(event.top[i].token), event.top[i].logprob));
    logprobs_.push_back(std::move(one));
}

bool Answer::next(Piece& piece, double patience) {
    const auto start = Clock::now();
    const auto deliver = [&](Piece::Kind kind, std::string text) {
        piece = {};
        piece.kind = kind;
        piece.text = std::move(text);
        std::swap(piece.logprobs, logprobs_);
        return true;
    };
    for (int events = 0;; ++events) {
        if (ended_) return false;
        coterie_event event;
        const bool came = generation_->next(event, 100);
        if ((!came || events == 0) && gone_()) throw ClientGone();
        if (!came) {
            if (patience < 0 || std::chrono::duration<double>(Clock::now() - start).count() < patience)
                continue;
            piece = {};
            return true;
        }
        const auto text = [&] { return std::string(event.text, event.length); };
        switch (event.kind) {
            case COTERIE_EVENT_TOKEN:
                if (question_.logprobs) add_logprob(event);
                if (question_.complete && event.length > 0) return deliver(Piece::Kind::content, text());
                break;
            case COTERIE_EVENT_CONTENT:
                if (event.length > 0) return deliver(Piece::Kind::content, text());
                break;
            case COTERIE_EVENT_REASONING:
                if (event.length > 0 && question_.thinking != Thinking::off)
                    return deliver(Piece::Kind::reasoning, text());
                break;
            case COTERIE_EVENT_TOOL_CALL:
                call_ = {};
                call_.kind = Piece::Kind::call;
                call_.index = calls_++;
                call_.id = event.id;
                call_.name = event.name;
                break;
            case COTERIE_EVENT_ARGUMENTS:
                call_.arguments += text();
                break;
            case COTERIE_EVENT_TOOL_CALL_END:
                piece = std::move(call_);
                std::swap(piece.logprobs, logprobs_);
                call_ = {};
                return true;
            case COTERIE_EVENT_FINISHED:
                ended_ = true;
                finish_reason_ = event.finish_reason;
                if (!logprobs_.empty()) return deliver(Piece::Kind::content, {});
                return false;
            default:
                break;
        }
    }
}

Whole gather(Answer& answer) {
    Whole whole;
    Piece piece;
    while (answer.next(piece)) {
        for (json& logprob : piece.logprobs) whole.logprobs.push_back(std::move(logprob));
        if (piece.kind == Piece::Kind::call)
            whole.calls.push_back(std::move(piece));
        else
            (piece.kind == Piece::Kind::reasoning ? whole.reasoning : whole.text) += piece.text;
    }
    return whole;
}

}  // namespace server
