// Stored models as JSON, for programs.

#include "base/json.h"
#include "store/store.h"

namespace coterie::store {
namespace {

const char* state_name(Part::State state) {
    switch (state) {
        case Part::State::complete:
            return "complete";
        case Part::State::missing:
            return "missing";
        case Part::State::unfinished:
            return "unfinished";
        case Part::State::wrong_size:
            return "wrong size";
    }
    return "";
}

Json facts_of(const StoredModel& model) {
    return {{"name", model.name},
            {"source", model.source},
            {"path", model.path},
            {"digest", model.digest},
            {"size", model.size},
            {"modified_ns", model.modified_ns},
            {"format", model.format.empty() ? "gguf" : model.format},
            {"family", model.family},
            {"families", model.families},
            {"parameter_size", model.parameter_size},
            {"quantization_level", model.quantization},
            {"complete", model.problem.empty()},
            {"problem", model.problem}};
}

std::string text_of(const Json& value) {
    return value.dump(2) + "\n";
}

Json parsed(const std::string& text, Json otherwise) {
    std::optional<Json> value = Json::parse(text);
    const bool same =
        value && value->is_array() == otherwise.is_array() && value->is_object() == otherwise.is_object();
    return same ? std::move(*value) : std::move(otherwise);
}

}  // namespace

std::string list_json(const std::vector<StoredModel>& models) {
    Json list = Json::array();
    for (const StoredModel& model : models) list.push_back(facts_of(model));
    return text_of(list);
}

std::string show_json(const StoredModel& model) {
    Json object = facts_of(model);
    const StoredTexts texts = read_texts(model);
    object["renderer"] = model.renderer;
    object["parser"] = model.parser;
    object["template"] = texts.chat_template;
    object["system"] = texts.system;
    object["parameters"] = parsed(texts.parameters_json, Json::object());
    object["messages"] = parsed(texts.messages_json, Json::array());
    object["licenses"] = texts.licenses;
    Json parts = Json::array();
    for (const Part& part : model.parts)
        parts.push_back({{"type", part.type},
                         {"digest", part.digest},
                         {"path", part.path},
                         {"size", part.size},
                         {"found", part.found},
                         {"state", state_name(part.state)}});
    object["parts"] = std::move(parts);
    return text_of(object);
}

}  // namespace coterie::store
