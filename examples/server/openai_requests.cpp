// Requests in OpenAI's form -> questions.
#include <fmt/format.h>

#include "ollama.h"
#include "openai.h"

namespace server {
namespace {

// Options of both endpoints, under Ollama's names.
void read_common(const json& request, Question& q) {
    q.model = string_of(request, "model");
    if (q.model.empty()) throw HttpError(400, "model is required");
    q.keep_alive = keep_alive_of(request);
    q.truncate = false;
    q.base = {{"temperature", 1.0}, {"top_p", 1.0}, {"top_k", 40}};
    for (const char* key : {"temperature", "top_p", "seed", "presence_penalty", "frequency_penalty", "top_k",
                            "min_p", "typical_p", "repeat_penalty"})
        if (const auto value = number_of(request, key)) q.options[key] = *value;
    for (const char* key : {"max_tokens", "max_completion_tokens", "n_predict"})
        if (const auto value = number_of(request, key)) {
            if (*value < 0 && *value != -1)
                throw HttpError(400, std::string("'") + key + "' must not be negative");
            q.options["num_predict"] = *value;
        }
    if (const auto stop = request.find("stop"); stop != request.end() && !stop->is_null()) {
        if (!stop->is_string() && !stop->is_array())
            throw HttpError(400, "'stop' must be a string or an array");
        q.options["stop"] = *stop;
    }
    if (const auto options = request.find("options"); options != request.end() && options->is_object())
        q.options.update(*options);
    if (const auto bias = request.find("logit_bias"); bias != request.end() && !bias->is_null()) {
        if (!bias->is_object())
            throw HttpError(400, "'logit_bias' must be an object of token ids and numbers");
        for (const auto& [token, value] : bias->items()) {
            char* end = nullptr;
            const long id = std::strtol(token.c_str(), &end, 10);
            if (*end != 0 || token.empty() || !value.is_number())
                throw HttpError(400, "'logit_bias' must be an object of token ids and numbers");
            q.sampling.bias.push_back({int32_t(id), value.get<float>()});
        }
    }
    const json* grammar = request.contains("grammar") ? &request["grammar"] : nullptr;
    if (grammar && grammar->is_string()) q.sampling.grammar = *grammar;
}

void read_format(const json& request, Question& q) {
    if (const auto schema = request.find("json_schema"); schema != request.end() && schema->is_object())
        q.sampling.schema = schema->dump();
    const auto format = request.find("response_format");
    if (format == request.end() || format->is_null()) return;
    if (!format->is_object()) throw HttpError(400, "'response_format' must be an object");
    const std::string type = string_of(*format, "type");
    if (type == "text") return;
    if (type == "json_object") {
        q.sampling.schema = format->contains("schema") ? (*format)["schema"].dump() : "{}";
        return;
    }
    if (type == "json_schema") {
        const json* schema = nullptr;
        if (const auto outer = format->find("json_schema"); outer != format->end() && outer->is_object())
            schema = outer->contains("schema") ? &(*outer)["schema"] : &*outer;
        else if (format->contains("schema"))
            schema = &(*format)["schema"];
        if (!schema || !schema->is_object())
            throw HttpError(400, "'response_format.json_schema.schema' must be a JSON Schema object");
        q.sampling.schema = schema->dump();
        return;
    }
    throw HttpError(400,
                    "'response_format.type' must be text, json_object or json_schema, not '" + type + "'");
}

void read_thinking(const json& request, Question& q) {
    const auto effort = [&](const json& value) {
        if (!value.is_string()) return;
        const std::string word = value;
        if (word == "none") {
            q.thinking = Thinking::off;
            return;
        }
        static const std::map<std::string, std::string> levels{
            {"minimal", "low"}, {"low", "low"},    {"medium", "medium"}, {"high", "high"},
            {"max", "high"},    {"xhigh", "high"}, {"ultra", "high"}};
        const auto found = levels.find(word);
        if (found == levels.end())
            throw HttpError(
                400, "reasoning effort must be none, minimal, low, medium or high, not '" + word + "'");
        q.effort = found->second;
    };
    if (request.contains("reasoning") && request["reasoning"].is_object() &&
        request["reasoning"].contains("effort"))
        effort(request["reasoning"]["effort"]);
    if (request.contains("reasoning_effort")) effort(request["reasoning_effort"]);
    const auto flag = [&](const json& object, const char* key) {
        if (object.contains(key) && object[key].is_boolean())
            q.thinking = object[key].get<bool>() ? Thinking::on : Thinking::off;
    };
    flag(request, "think");
    flag(request, "enable_thinking");
    if (const auto variables = request.find("chat_template_kwargs");
        variables != request.end() && variables->is_object()) {
        flag(*variables, "enable_thinking");
        q.template_variables = *variables;
    }
}

}  // namespace

void read_tools(const json& request, Question& q) {
    if (const auto tools = request.find("tools"); tools != request.end() && !tools->is_null()) {
        if (!tools->is_array()) throw HttpError(400, "'tools' must be an array");
        for (const json& tool : *tools)
            if (!tool.is_object() || !tool.contains("function") || !tool["function"].is_object() ||
                string_of(tool["function"], "name").empty())
                throw HttpError(400,
                                "each tool must be {\"type\": \"function\", \"function\": {\"name\": ...}}");
        if (!tools->empty()) q.tools = *tools;
    }
    const auto choice = request.find("tool_choice");
    if (choice == request.end() || choice->is_null()) return;
    if (choice->is_string()) {
        if (*choice == "none")
            q.tools = nullptr;
        else if (*choice != "auto" && *choice != "required")
            throw HttpError(400, "'tool_choice' must be none, auto, required or a function");
        if (*choice == "required" && q.tools.is_array()) q.sampling.tool_choice = "required";
        return;
    }
    const json* function =
        choice->is_object() && choice->contains("function") ? &(*choice)["function"] : nullptr;
    const std::string name = function && function->is_object() ? string_of(*function, "name") : "";
    json chosen = json::array();
    if (q.tools.is_array())
        for (const json& tool : q.tools)
            if (tool["function"]["name"] == name) chosen.push_back(tool);
    if (chosen.empty())
        throw HttpError(400, "'tool_choice' names '" + name + "', which is none of the tools");
    q.tools = std::move(chosen);
    q.sampling.tool_choice = name;
}

Question read_chat(const json& request) {
    Question q;
    read_common(request, q);
    q.messages = checked_messages(request);
    if (q.messages.empty()) throw HttpError(400, "[] is too short - 'messages'");
    read_format(request, q);
    read_thinking(request, q);
    read_tools(request, q);
    q.store_messages = true;
    q.logprobs = bool_of(request, "logprobs").value_or(false);
    const double top = number_of(request, "top_logprobs").value_or(0);
    if (top < 0 || top > 20) throw HttpError(400, "'top_logprobs' must be between 0 and 20");
    q.top_logprobs = int(top);
    q.continue_last = bool_of(request, "continue_final_message").value_or(false);
    return q;
}

Question read_completion(const json& request) {
    Question q;
    read_common(request, q);
    read_format(request, q);
    q.complete = true;
    q.suffix = string_of(request, "suffix");
    if (const auto found = request.find("logprobs"); found != request.end() && !found->is_null()) {
        q.logprobs = found->is_boolean() ? found->get<bool>() : true;
        if (found->is_number()) q.top_logprobs = std::clamp(found->get<int>(), 0, 20);
    }
    return q;
}

}  // namespace server
