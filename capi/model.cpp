// Models, tokens and chat rendering.
#include <fmt/ranges.h>

#include "base/json.h"
#include "guard.h"
#include "handles.h"
#include "store/store.h"
#include "text/detokenizer.h"

using namespace coterie;
using namespace coterie::capi;

namespace coterie::capi {

ModelData::ModelData(std::shared_ptr<const Model> m, std::string fallback_template)
    : model(std::move(m)),
      tokenizer(std::make_shared<const text::Tokenizer>(text::Tokenizer::from_gguf(model->file()))),
      fallback_template_(std::move(fallback_template)) {}

bool ModelData::has_chat_template() const {
    return model->file().find("tokenizer.chat_template") != nullptr || !fallback_template_.empty();
}

std::string ModelData::template_source() const {
    if (const auto source = model->file().get_string("tokenizer.chat_template"); source && !source->empty())
        return std::string(*source);
    if (!fallback_template_.empty()) return fallback_template_;
    const auto has_token = [&](std::string_view text) { return tokenizer->find(text).has_value(); };
    return text::builtin_template(text::choose_builtin_template(model->numbers().architecture, has_token));
}

static std::string token_text(const text::Tokenizer& tokenizer, int32_t id) {
    return id < 0 ? std::string() : std::string(tokenizer.bytes(id));
}

const text::ChatTemplate& ModelData::chat_template() const {
    std::lock_guard lock(mutex_);
    if (!template_)
        template_ =
            std::make_unique<text::ChatTemplate>(template_source(), token_text(*tokenizer, tokenizer->bos()),
                                                 token_text(*tokenizer, tokenizer->eos()));
    return *template_;
}

// A built-in template says nothing about how the model answers; its architecture does.
text::AnswerFormat ModelData::answer_format(const char* template_override) const {
    std::string_view source;
    if (template_override)
        source = template_override;
    else if (has_chat_template())
        source = chat_template().source();
    return text::detect_answer_format(source, model->numbers().architecture);
}

std::shared_ptr<const text::TokenTrie> ModelData::token_trie() const {
    std::lock_guard lock(mutex_);
    if (!trie_) {
        std::vector<std::string> tokens(size_t(model->numbers().vocabulary));
        std::vector<bool> control(tokens.size());
        for (int32_t id = 0; id < tokenizer->size() && id < int32_t(tokens.size()); ++id) {
            tokens[size_t(id)] = std::string(tokenizer->bytes(id));
            control[size_t(id)] = tokenizer->is_special(id);
        }
        trie_ = std::make_shared<const text::TokenTrie>(
            std::move(tokens), std::vector<uint32_t>(tokenizer->ends().begin(), tokenizer->ends().end()),
            control);
    }
    return trie_;
}

text::ChatOptions chat_options(const coterie_chat_options& options) {
    text::ChatOptions o;
    o.add_generation_prompt = !options.no_generation_prompt;
    o.continue_final_message = options.continue_last_message != 0;
    if (options.thinking != 0) o.enable_thinking = options.thinking > 0;
    if (options.reasoning_effort) o.reasoning_effort = options.reasoning_effort;
    if (options.variables_json) o.variables_json = options.variables_json;
    return o;
}

std::string ModelData::render(const char* messages_json, const char* tools_json,
                              const coterie_chat_options& options) const {
    const std::string_view messages = need_text(messages_json, "messages_json");
    const std::string_view tools = tools_json ? std::string_view(tools_json) : std::string_view();
    if (!options.chat_template) return chat_template().render(messages, tools, chat_options(options));
    const text::ChatTemplate own(options.chat_template, token_text(*tokenizer, tokenizer->bos()),
                                 token_text(*tokenizer, tokenizer->eos()));
    return own.render(messages, tools, chat_options(options));
}

static std::string value_text(const gguf::File& file, std::string_view key, const gguf::Value& value) {
    if (const auto strings = value.is_array() && value.element_type() == gguf::ValueType::string
                                 ? file.get_strings(key)
                                 : std::nullopt)
        return fmt::format("{}", fmt::join(*strings, "\n"));
    switch (value.is_array() ? value.element_type() : value.type()) {
        case gguf::ValueType::string:
            return std::string(*file.get_string(key));
        case gguf::ValueType::boolean:
            if (!value.is_array()) return *file.get_bool(key) ? "true" : "false";
            return fmt::format("{}", fmt::join(*file.get_bools(key), ","));
        case gguf::ValueType::f32:
        case gguf::ValueType::f64:
            if (!value.is_array()) return fmt::format("{}", *file.get_float(key));
            return fmt::format("{}", fmt::join(*file.get_floats(key), ","));
        default:
            if (!value.is_array()) return fmt::format("{}", *file.get_int(key));
            return fmt::format("{}", fmt::join(*file.get_ints(key), ","));
    }
}

// What the makers of a family recommend for its models.
static bool family_defaults(const std::string& architecture, SamplingOptions& s) {
    if (architecture == "qwen3" || architecture == "qwen3moe" || architecture == "qwen3next") {
        s.temperature = 0.7f, s.top_p = 0.8f, s.top_k = 20;
    } else if (architecture == "qwen35" || architecture == "qwen35moe" || architecture == "qwen4exp") {
        s.temperature = 1.0f, s.top_p = 0.95f, s.top_k = 20;
    } else if (architecture == "gemma3") {
        s.temperature = 1.0f, s.top_p = 0.95f, s.top_k = 64;
    } else if (architecture == "gpt-oss" || architecture == "gptoss") {
        s.temperature = 1.0f, s.top_p = 1.0f, s.top_k = 0;
    } else {
        return false;
    }
    return true;
}

SamplingOptions ModelData::sampling_defaults(const char** source) const {
    SamplingOptions s;
    const char* from = family_defaults(model->numbers().architecture, s) ? "family" : "library";
    const gguf::File& file = model->file();
    const auto read = [&](const char* name, auto& option) {
        const std::optional<double> value = file.get_float(std::string("general.sampling.") + name);
        if (!value) return;
        option = static_cast<std::remove_reference_t<decltype(option)>>(*value);
        from = "file";
    };
    read("temp", s.temperature);
    read("top_k", s.top_k);
    read("top_p", s.top_p);
    read("min_p", s.min_p);
    read("penalty_repeat", s.repeat_penalty);
    read("penalty_last_n", s.penalty_tokens);
    s.check();
    if (source) *source = from;
    return s;
}

static std::string defaults_json(const ModelData& data) {
    const char* source = nullptr;
    const SamplingOptions s = data.sampling_defaults(&source);
    return Json{{"temperature", s.temperature},
                {"top_k", s.top_k},
                {"top_p", s.top_p},
                {"min_p", s.min_p},
                {"typical_p", s.typical_p},
                {"repeat_penalty", s.repeat_penalty},
                {"penalty_tokens", s.penalty_tokens},
                {"source", source}}
        .dump();
}

}  // namespace coterie::capi

const char* coterie_version(void) {
    return "0.1.0";
}
const char* coterie_status_name(coterie_status status) {
    return status_name(Status(status));
}

coterie_status coterie_model_open(const char* path, const coterie_model_options* options,
                                  coterie_model** model, coterie_error* error) {
    return guard(error, [&] {
        need(model, "model") = nullptr;
        const coterie_model_options o = read_options(options, "options");
        const store::StoredModel stored = store::resolve(std::string(need_text(path, "path")));
        auto opened = Model::open(stored.path, progress_of(o.progress, o.progress_user));
        *model = new coterie_model{
            std::make_shared<const ModelData>(std::move(opened), store::read_texts(stored).chat_template)};
    });
}

void coterie_model_destroy(coterie_model* model) {
    delete model;
}

coterie_status coterie_model_get_info(const coterie_model* model, coterie_model_info* info,
                                      coterie_error* error) {
    return guard(error, [&] {
        const ModelData& data = *need(model, "model").data;
        const Hyperparameters& h = data.model->numbers();
        coterie_model_info result{};
        result.layers = h.layers;
        result.embedding = h.embedding;
        result.vocabulary = h.vocabulary;
        result.experts = h.router.experts;
        result.experts_used = h.router.used;
        result.context_tokens = h.context;
        result.file_bytes = data.model->file().total_bytes();
        result.weight_bytes = data.model->weight_bytes();
        result.recurrent = h.has_states();
        result.has_chat_template = data.has_chat_template();
        write_result(info, result, "info");
    });
}

coterie_status coterie_model_metadata(const coterie_model* model, const char* key, char* buffer,
                                      size_t capacity, size_t* needed, coterie_error* error) {
    return guard(error, [&] {
        const gguf::File& file = need(model, "model").data->model->file();
        const gguf::Value* value = file.find(need_text(key, "key"));
        if (!value) fail(Status::not_found, "'{}' has no metadata key '{}'", file.path(), key);
        write_text(value_text(file, key, *value), buffer, capacity, needed);
    });
}

coterie_status coterie_model_sampling_defaults(const coterie_model* model, char* buffer, size_t capacity,
                                               size_t* needed, coterie_error* error) {
    return guard(error,
                 [&] { write_text(defaults_json(*need(model, "model").data), buffer, capacity, needed); });
}

coterie_status coterie_tokenize(const coterie_model* model, const char* text, size_t length, uint32_t flags,
                                int32_t* tokens, size_t capacity, size_t* needed, coterie_error* error) {
    return guard(error, [&] {
        const ModelData& data = *need(model, "model").data;
        if (length > 0) need(text, "text");
        if (capacity > 0) need(tokens, "tokens");
        const std::vector<int32_t> ids =
            data.tokenizer->encode({text ? text : "", length}, (flags & COTERIE_ADD_SPECIAL) != 0,
                                   (flags & COTERIE_PARSE_SPECIAL) != 0);
        if (needed) *needed = ids.size();
        std::copy_n(ids.begin(), std::min(capacity, ids.size()), tokens);
    });
}

coterie_status coterie_detokenize(const coterie_model* model, const int32_t* tokens, size_t count,
                                  uint32_t flags, char* buffer, size_t capacity, size_t* needed,
                                  coterie_error* error) {
    return guard(error, [&] {
        const ModelData& data = *need(model, "model").data;
        if (count > 0) need(tokens, "tokens");
        text::Utf8Stream stream;
        std::string text =
            stream.push(data.tokenizer->decode({tokens, count}, (flags & COTERIE_WITH_SPECIAL) != 0));
        text += stream.flush();
        write_text(text, buffer, capacity, needed);
    });
}

int32_t coterie_token_is_end(const coterie_model* model, int32_t token) {
    return model && model->data->tokenizer->is_end(token) ? 1 : 0;
}

coterie_status coterie_chat_render(const coterie_model* model, const char* messages_json,
                                   const char* tools_json, const coterie_chat_options* options, char* buffer,
                                   size_t capacity, size_t* needed, coterie_error* error) {
    return guard(error, [&] {
        const ModelData& data = *need(model, "model").data;
        write_text(data.render(messages_json, tools_json, read_options(options, "options")), buffer, capacity,
                   needed);
    });
}
