// Stored models as JSON, for programs.
#include <nlohmann/json.hpp>

#include "store/store.h"

namespace coterie::store {
namespace {

using json = nlohmann::ordered_json;

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

json facts_of(const StoredModel& model) {
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

std::string text_of(const json& value) {
    return value.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

json parsed(const std::string& text, json otherwise) {
    json value = json::parse(text, nullptr, false);
    return value.is_discarded() || value.type() != otherwise.type() ? otherwise : value;
}

}  // namespace

std::string list_json(const std::vector<StoredModel>& models) {
    json list = json::array();
    for (const StoredModel& model : models) list.push_back(facts_of(model));
    return text_of(list);
}

std::string show_json(const StoredModel& model) {
    json object = facts_of(model);
    const StoredTexts texts = read_texts(model);
    object["renderer"] = model.renderer;
    object["parser"] = model.parser;
    object["template"] = texts.chat_template;
    object["system"] = texts.system;
    object["parameters"] = parsed(texts.parameters_json, json::object());
    object["messages"] = parsed(texts.messages_json, json::array());
    object["licenses"] = texts.licenses;
    json parts = json::array();
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
