// Models in OpenAI's form, and what llama.cpp's server tells about itself.
#include <fmt/format.h>

#include "coterie/coterie_experimental.h"
#include "openai.h"

namespace server {
namespace {

json model_json(const Facts& f) {
    const size_t slash = f.name.find('/');
    return {{"id", f.name},
            {"object", "model"},
            {"created", f.stored.value("modified_ns", int64_t(0)) / 1000000000},
            {"owned_by", slash == std::string::npos ? "library" : f.name.substr(0, slash)},
            {"max_model_len", f.context},
            {"meta", {{"n_ctx_train", f.context}, {"n_embd", f.embedding}, {"size", f.size}}}};
}

std::string decoded_path(const std::string& text) {
    std::string plain;
    for (size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '%' && i + 2 < text.size()) {
            char* end = nullptr;
            const std::string digits = text.substr(i + 1, 2);
            const long value = std::strtol(digits.c_str(), &end, 16);
            if (*end == 0) {
                plain += char(value);
                i += 2;
                continue;
            }
        }
        plain += text[i];
    }
    return plain;
}

// The model a request names, else the one that is loaded.
std::string model_of(const json& request, const ModelPool& pool) {
    std::string name = string_of(request, "model");
    if (name.empty()) pool.visit([&](const LoadedModel& m) { name = m.facts.name; });
    if (name.empty())
        if (const std::vector<Facts> all = pool.list(); all.size() == 1) name = all[0].name;
    if (name.empty()) throw HttpError(400, "no model is loaded: name one with 'model'");
    return name;
}

}  // namespace

void add_openai_listings(Http& http, ModelPool& pool, Metrics& metrics, const Settings& settings) {
    http.get("/v1/models", [&](const httplib::Request&, const std::string&, httplib::Response& response) {
        json data = json::array();
        for (const Facts& f : pool.list()) data.push_back(model_json(f));
        reply(response, {{"object", "list"}, {"data", std::move(data)}});
    });
    http.get("/v1/models/(.+)",
             [&](const httplib::Request& r, const std::string&, httplib::Response& response) {
                 reply(response, model_json(pool.facts(decoded_path(r.matches[1]))));
             });
    const auto health = [&](const httplib::Request&, const std::string&, httplib::Response& response) {
        pool.health().admit();
        json object{{"status", "ok"}};
        if (const std::string trouble = pool.health().trouble(); !trouble.empty())
            object["warning"] = trouble;
        reply(response, object);
    };
    http.get("/health", health);
    http.get("/v1/health", health);
    http.get("/metrics", [&](const httplib::Request&, const std::string&, httplib::Response& response) {
        response.set_content(metrics.text(pool), "text/plain; version=0.0.4");
    });
    http.get("/props", [&](const httplib::Request&, const std::string&, httplib::Response& response) {
        json props{{"default_generation_settings", {{"n_ctx", 0}}},
                   {"total_slots", settings.parallel},
                   {"model_path", ""},
                   {"chat_template", ""},
                   {"modalities", {{"vision", false}, {"audio", false}}},
                   {"build_info", std::string("coterie ") + coterie_version()}};
        pool.visit([&](const LoadedModel& m) {
            props["default_generation_settings"]["n_ctx"] = m.context;
            props["model_path"] = m.facts.path;
            props["chat_template"] = m.facts.chat_template;
        });
        reply(response, props);
    });
    http.get("/devices", [&](const httplib::Request&, const std::string&, httplib::Response& response) {
        reply(response, pool.health().devices());
    });
    // What the page shows: models, their memory, and how busy they are.
    http.get("/status", [&](const httplib::Request&, const std::string&, httplib::Response& response) {
        json models = json::array();
        pool.visit([&](const LoadedModel& m) {
            const coterie_engine_statistics s = m.engine->statistics();
            models.push_back({{"name", m.facts.name},
                              {"running", s.running},
                              {"waiting", s.waiting},
                              {"parallel", s.parallel},
                              {"context_length", s.context_tokens},
                              {"pages", s.pages},
                              {"pages_held", s.pages_held},
                              {"pages_cached", s.pages_cached},
                              {"prompt_tokens", s.prompt_tokens},
                              {"generated_tokens", s.generated_tokens},
                              {"tokens_per_second", s.tokens_per_second},
                              {"step_us_p50", s.step_us_p50},
                              {"step_us_p99", s.step_us_p99},
                              {"state", coterie_engine_state(m.engine->get())},
                              {"plan", m.plan.value("ranks", json::array())},
                              {"memory", json::parse(m.engine->describe(COTERIE_JSON))["ranks"]}});
        });
        reply(response, {{"models", std::move(models)}, {"devices", pool.health().devices()["devices"]}});
    });
    const auto gone = [] { return false; };
    http.post("/tokenize", [&, gone](const httplib::Request&, const std::string& body,
                                     httplib::Response& response) {
        const json request = read_body(body);
        const auto lease = pool.acquire(model_of(request, pool), std::nullopt, 0, gone);
        uint32_t flags = 0;
        if (bool_of(request, "add_special").value_or(false)) flags |= COTERIE_ADD_SPECIAL;
        if (bool_of(request, "parse_special").value_or(true)) flags |= COTERIE_PARSE_SPECIAL;
        const std::vector<int32_t> tokens = lease->model->tokenize(string_of(request, "content"), flags);
        json list = json::array();
        const bool pieces = bool_of(request, "with_pieces").value_or(false);
        for (const int32_t token : tokens) {
            if (pieces)
                list.push_back(
                    {{"id", token}, {"piece", lease->model->detokenize({token}, COTERIE_WITH_SPECIAL)}});
            else
                list.push_back(token);
        }
        reply(response, {{"tokens", std::move(list)}});
    });
    http.post("/detokenize",
              [&, gone](const httplib::Request&, const std::string& body, httplib::Response& response) {
                  const json request = read_body(body);
                  const auto lease = pool.acquire(model_of(request, pool), std::nullopt, 0, gone);
                  std::vector<int32_t> tokens;
                  for (const json& token : request.value("tokens", json::array()))
                      tokens.push_back(token.get<int32_t>());
                  reply(response, {{"content", lease->model->detokenize(tokens, COTERIE_WITH_SPECIAL)}});
              });
    http.post("/apply-template",
              [&, gone](const httplib::Request&, const std::string& body, httplib::Response& response) {
                  const json request = read_body(body);
                  const auto lease = pool.acquire(model_of(request, pool), std::nullopt, 0, gone);
                  coterie_chat_options options = COTERIE_CHAT_OPTIONS_INIT;
                  const std::string own = lease->facts.stored.value("template", "");
                  if (!own.empty() && own == lease->facts.chat_template) options.chat_template = own.c_str();
                  const std::string messages = text_of(request.value("messages", json::array()));
                  reply(response, {{"prompt", lease->model->render(messages, {}, options)}});
              });
}

}  // namespace server
