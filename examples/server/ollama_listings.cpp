// What is there and what is loaded: /api/tags, /api/show, /api/ps, /api/version.
#include <fmt/format.h>

#include "coterie/coterie_experimental.h"
#include "ollama.h"

namespace server {
namespace {

json tag_of(const Facts& f) {
    return {
        {"name", f.name},     {"model", f.name},        {"modified_at", f.modified_at},    {"size", f.size},
        {"digest", f.digest}, {"details", f.details()}, {"capabilities", f.capabilities()}};
}

// One option per line, names padded.
std::string parameters_text(const json& parameters) {
    std::string text;
    const auto line = [&](const std::string& key, const json& value) {
        if (!text.empty()) text += "\n";
        text += fmt::format("{:<30} {}", key, text_of(value));
    };
    for (const auto& [key, value] : parameters.items()) {
        if (!value.is_array()) {
            line(key, value);
            continue;
        }
        for (const json& one : value) line(key, one);
    }
    return text;
}

std::string modelfile(const Facts& f) {
    std::string text = "# Modelfile of " + f.name + "\nFROM " + f.path + "\n";
    const std::string chat_template = f.stored.value("template", "");
    if (!chat_template.empty()) text += "TEMPLATE \"\"\"" + chat_template + "\"\"\"\n";
    const std::string system = f.stored.value("system", "");
    if (!system.empty()) text += "SYSTEM \"\"\"" + system + "\"\"\"\n";
    const json parameters = f.stored.value("parameters", json::object());
    for (const auto& [key, value] : parameters.items())
        for (const json& one : value.is_array() ? value : json::array({value}))
            text += "PARAMETER " + key + " " + text_of(one) + "\n";
    return text;
}

json show(const Facts& f, bool verbose) {
    json info = f.model_info;
    if (!verbose)
        for (auto& [key, value] : info.items())
            if (value.is_object() || value.is_array()) value = nullptr;  // long arrays
    std::string licenses;
    for (const json& text : f.stored.value("licenses", json::array()))
        licenses += (licenses.empty() ? "" : "\n") + text.get<std::string>();
    json object{{"license", licenses},
                {"modelfile", modelfile(f)},
                {"parameters", parameters_text(f.stored.value("parameters", json::object()))},
                {"template",
                 f.stored.value("template", "").empty() ? f.chat_template : f.stored.value("template", "")},
                {"system", f.stored.value("system", "")},
                {"details", f.details()},
                {"messages", f.stored.value("messages", json::array())},
                {"model_info", info},
                {"capabilities", f.capabilities()},
                {"modified_at", f.modified_at}};
    for (const char* key : {"renderer", "parser"})
        if (const std::string value = f.stored.value(key, ""); !value.empty()) object[key] = value;
    if (verbose) {
        const json all = json::parse(coterie::text_of([&](char* b, size_t c, size_t* n, coterie_error* e) {
            return coterie_inspect(f.path.c_str(), COTERIE_JSON, b, c, n, e);
        }));
        object["tensors"] = json::array();
        for (const json& tensor : all.value("tensors", json::array()))
            object["tensors"].push_back({{"name", tensor.value("name", "")},
                                         {"type", tensor.value("type", "")},
                                         {"shape", tensor.value("shape", json::array())}});
    }
    return object;
}

}  // namespace

void add_ollama_listings(Http& http, ModelPool& pool, const Settings&) {
    http.get("/api/version", [](const httplib::Request&, const std::string&, httplib::Response& response) {
        reply(response, {{"version", ollama_version}});
    });
    http.get("/api/status", [](const httplib::Request&, const std::string&, httplib::Response& response) {
        reply(response, {{"cloud", {{"disabled", true}, {"source", "config"}}}});
    });
    http.get("/api/tags", [&](const httplib::Request&, const std::string&, httplib::Response& response) {
        json models = json::array();
        std::vector<Facts> all = pool.list();
        std::stable_sort(all.begin(), all.end(),
                         [](const Facts& a, const Facts& b) { return a.modified_at > b.modified_at; });
        for (const Facts& f : all) models.push_back(tag_of(f));
        reply(response, {{"models", std::move(models)}});
    });
    http.get("/api/ps", [&](const httplib::Request&, const std::string&, httplib::Response& response) {
        reply(response, {{"models", pool.running()}});
    });
    http.post("/api/show",
              [&](const httplib::Request&, const std::string& body, httplib::Response& response) {
                  const json request = read_body(body);
                  std::string name = string_of(request, "model");
                  if (name.empty()) name = string_of(request, "name");
                  if (name.empty()) throw HttpError(400, "model is required");
                  const Facts f = pool.facts(name);
                  if (f.path.empty())
                      throw HttpError(500, f.stored.value("problem", "the model has no weights"));
                  reply(response, show(f, bool_of(request, "verbose").value_or(false)));
              });
}

}  // namespace server
