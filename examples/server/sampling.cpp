// Options of requests -> options of the engine, whose zeros mean "default".
#include <cmath>
#include <limits>

#include "generation.h"

namespace server {
namespace {

[[noreturn]] void wrong_type(const char* key, const char* type) {
    throw HttpError(400, std::string("option \"") + key + "\" must be of type " + type);
}

const json* given(const json& object, const char* key) {
    const auto found = object.find(key);
    return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::optional<double> option(const json& object, const char* key, const char* type) {
    const json* value = given(object, key);
    if (!value) return std::nullopt;
    if (!value->is_number()) wrong_type(key, type);
    return value->get<double>();
}

int64_t whole(double value) {
    return int64_t(std::clamp(std::trunc(value), -9e15, 9e15));
}

int32_t whole32(double value) {
    return int32_t(std::clamp(std::trunc(value), -2e9, 2e9));
}

}  // namespace

std::optional<double> number_of(const json& object, const char* key) {
    const json* value = given(object, key);
    if (!value) return std::nullopt;
    if (!value->is_number()) throw HttpError(400, std::string("'") + key + "' must be a number");
    return value->get<double>();
}

std::optional<bool> bool_of(const json& object, const char* key) {
    const json* value = given(object, key);
    if (!value) return std::nullopt;
    if (!value->is_boolean()) throw HttpError(400, std::string("'") + key + "' must be true or false");
    return value->get<bool>();
}

std::string string_of(const json& object, const char* key) {
    const json* value = given(object, key);
    if (!value) return {};
    if (!value->is_string()) throw HttpError(400, std::string("'") + key + "' must be a string");
    return value->get<std::string>();
}

void Sampling::read(const json& o) {
    constexpr float off = 1e-6f;  // the smallest that is not "default"
    if (const auto v = option(o, "temperature", "float32")) {
        options.flags &= ~COTERIE_GREEDY;
        options.temperature = float(*v);
        if (*v <= 0) options.flags |= COTERIE_GREEDY;
    }
    if (const auto v = option(o, "top_k", "integer")) options.top_k = *v >= 1 ? whole32(*v) : -1;
    if (const auto v = option(o, "top_p", "float32")) options.top_p = std::max(float(*v), off);
    if (const auto v = option(o, "min_p", "float32")) options.min_p = float(*v);
    if (const auto v = option(o, "typical_p", "float32")) options.typical_p = float(*v);
    if (const auto v = option(o, "repeat_penalty", "float32")) options.repeat_penalty = float(*v);
    if (const auto v = option(o, "presence_penalty", "float32")) options.presence_penalty = float(*v);
    if (const auto v = option(o, "frequency_penalty", "float32")) options.frequency_penalty = float(*v);
    if (const auto v = option(o, "repeat_last_n", "integer")) {
        options.penalty_tokens = whole32(*v);
        if (*v == 0) options.repeat_penalty = options.presence_penalty = options.frequency_penalty = 0;
    }
    // Zero is a seed like any other to clients; here it means "chosen anew".
    if (const auto v = option(o, "seed", "integer")) options.seed = *v < 0 ? 0 : uint64_t(whole(*v)) + 1;
    if (const auto v = option(o, "num_predict", "integer"))
        options.max_tokens = std::max<int64_t>(whole(*v), 0);
    if (const auto v = option(o, "num_ctx", "integer"))
        context = *v > 0 ? std::max<int64_t>(whole(*v), 4) : 0;
    if (const json* v = given(o, "stop")) {
        stop.clear();
        if (v->is_string())
            stop.push_back(v->get<std::string>());
        else if (!v->is_array())
            wrong_type("stop", "array");
        else
            for (const json& text : *v) {
                if (!text.is_string()) wrong_type("stop", "array");
                stop.push_back(text.get<std::string>());
            }
        std::erase_if(stop, [](const std::string& text) { return text.empty(); });
    }
}

void Sampling::set_format(const json& format) {
    if (format.is_null() || (format.is_string() && format.get_ref<const std::string&>().empty())) return;
    if (format.is_string() && format == "json")
        schema = "{}";
    else if (format.is_object())
        schema = format.dump();
    else
        throw HttpError(
            500, "invalid format: " + text_of(format) + "; expected \"json\" or a valid JSON Schema object");
}

const coterie_generation_options& Sampling::finished() {
    stop_pointers_.clear();
    for (const std::string& text : stop) stop_pointers_.push_back(text.c_str());
    options.stop = stop_pointers_.data();
    options.stop_count = stop_pointers_.size();
    options.bias = bias.data();
    options.bias_count = bias.size();
    options.json_schema = schema.empty() ? nullptr : schema.c_str();
    options.grammar = grammar.empty() ? nullptr : grammar.c_str();
    options.tool_choice = tool_choice.empty() ? nullptr : tool_choice.c_str();
    return options;
}

}  // namespace server
