// What stored models are, from the store's own notes and from the headers of their files.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <filesystem>

#include "coterie/coterie_experimental.h"
#include "errors.h"
#include "models.h"

namespace server {
namespace {

const char* quantization_name(int64_t file_type) {
    static const std::map<int64_t, const char*> names{
        {0, "F32"},     {1, "F16"},     {2, "Q4_0"},     {3, "Q4_1"},    {7, "Q8_0"},     {8, "Q5_0"},
        {9, "Q5_1"},    {10, "Q2_K"},   {11, "Q3_K_S"},  {12, "Q3_K_M"}, {13, "Q3_K_L"},  {14, "Q4_K_S"},
        {15, "Q4_K_M"}, {16, "Q5_K_S"}, {17, "Q5_K_M"},  {18, "Q6_K"},   {19, "IQ2_XXS"}, {20, "IQ2_XS"},
        {21, "Q2_K_S"}, {22, "IQ3_XS"}, {23, "IQ3_XXS"}, {24, "IQ1_S"},  {25, "IQ4_NL"},  {26, "IQ3_S"},
        {27, "IQ3_M"},  {28, "IQ2_S"},  {29, "IQ2_M"},   {30, "IQ4_XS"}, {31, "IQ1_M"},   {32, "BF16"},
        {36, "TQ1_0"},  {37, "TQ2_0"},  {38, "MXFP4"}};
    const auto found = names.find(file_type);
    return found == names.end() ? "unknown" : found->second;
}

std::string count_text(double n) {
    if (n >= 1e9) return fmt::format("{:.1f}B", n / 1e9);
    if (n >= 1e6) return fmt::format("{:.2f}M", n / 1e6);
    return fmt::format("{:.2f}K", n / 1e3);
}

struct Header {
    json metadata;
    uint64_t parameters = 0;
};

// Headers are read once for each state of a file.
Header header_of(const std::string& path) {
    static std::mutex mutex;
    static std::map<std::string, Header> known;
    std::error_code error;
    const auto time = std::filesystem::last_write_time(path, error).time_since_epoch().count();
    const std::string key = fmt::format("{}:{}", path, time);
    {
        std::lock_guard lock(mutex);
        if (const auto found = known.find(key); found != known.end()) return found->second;
    }
    Header header;
    const json all = json::parse(coterie::text_of([&](char* b, size_t c, size_t* n, coterie_error* e) {
        return coterie_inspect(path.c_str(), COTERIE_JSON, b, c, n, e);
    }));
    header.metadata = all.value("metadata", json::object());
    header.parameters = all["parameters"].value("total", uint64_t(0));
    std::lock_guard lock(mutex);
    if (known.size() > 1000) known.clear();
    return known[key] = header;
}

std::string text_in(const json& object, const std::string& key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

int64_t number_in(const json& object, const std::string& key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_number() ? found->get<int64_t>() : 0;
}

std::string store_show(const std::string& name, const Settings& settings) {
    const char* folder = settings.models_dir.empty() ? nullptr : settings.models_dir.c_str();
    return coterie::text_of([&](char* b, size_t c, size_t* n, coterie_error* e) {
        return coterie_store_show(name.c_str(), folder, b, c, n, e);
    });
}

bool same_name(const std::string& a, const std::string& b) {
    const auto lower = [](std::string text) {
        for (char& c : text) c = char(std::tolower(static_cast<unsigned char>(c)));
        if (const size_t at = text.rfind(":latest"); at != std::string::npos && at + 7 == text.size())
            text.erase(at);
        return text;
    };
    return lower(a) == lower(b);
}

Facts facts_of(json stored) {
    Facts f;
    f.name = stored["name"];
    f.path = stored["path"];
    f.digest = stored["digest"];
    f.size = stored["size"];
    f.modified_at = rfc3339(stored["modified_ns"]);
    f.family = stored["family"];
    f.families = stored["families"].get<std::vector<std::string>>();
    f.parameter_size = stored["parameter_size"];
    f.quantization = stored["quantization_level"];
    f.stored = std::move(stored);
    if (f.path.empty() || !f.stored["problem"].get_ref<const std::string&>().empty()) return f;
    const Header header = header_of(f.path);
    f.model_info = header.metadata;
    f.architecture = text_in(f.model_info, "general.architecture");
    f.context = number_in(f.model_info, f.architecture + ".context_length");
    f.embedding = number_in(f.model_info, f.architecture + ".embedding_length");
    f.embeds = f.model_info.contains(f.architecture + ".pooling_type");
    f.chat_template = text_in(f.model_info, "tokenizer.chat_template");
    // A template given to /api/create is meant; one that came with a pulled file is older than the file's
    // own.
    if (f.chat_template.empty() || text_in(f.stored, "renderer") == "template")
        f.chat_template = text_in(f.stored, "template");
    if (f.family.empty()) f.family = f.architecture;
    if (f.families.empty()) f.families = {f.family};
    if (f.parameter_size.empty()) f.parameter_size = count_text(double(header.parameters));
    if (f.quantization.empty())
        f.quantization = quantization_name(number_in(f.model_info, "general.file_type"));
    f.model_info.erase("general.name");
    f.model_info.erase("tokenizer.chat_template");
    f.model_info["general.parameter_count"] = header.parameters;
    return f;
}

}  // namespace

bool Facts::thinks() const {
    return chat_template.find("<think>") != std::string::npos ||
           chat_template.find("enable_thinking") != std::string::npos ||
           chat_template.find(".Think") != std::string::npos || architecture == "gpt-oss" ||
           architecture == "gptoss";
}

bool Facts::takes_tools() const {
    return chat_template.find("tools") != std::string::npos ||
           chat_template.find(".Tools") != std::string::npos;
}

bool Facts::inserts() const {
    for (const char* key : {"fim_mid", "middle"})
        if (model_info.contains(fmt::format("tokenizer.ggml.{}_token_id", key))) return true;
    return stored.value("template", "").find(".Suffix") != std::string::npos;
}

json Facts::details() const {
    return {{"parent_model", ""},
            {"format", "gguf"},
            {"family", family},
            {"families", families},
            {"parameter_size", parameter_size},
            {"quantization_level", quantization},
            {"context_length", context},
            {"embedding_length", embedding}};
}

json Facts::capabilities() const {
    json list = json::array();
    list.push_back(embeds ? "embedding" : "completion");
    if (takes_tools()) list.push_back("tools");
    if (thinks()) list.push_back("thinking");
    if (inserts()) list.push_back("insert");
    return list;
}

Facts ModelPool::facts(const std::string& name) const {
    if (name.empty()) throw HttpError(400, "model is required");
    const HttpError missing(404, fmt::format("model '{}' not found", name));
    try {
        for (const auto& [alias, target] : settings_.aliases)
            if (same_name(alias, name)) {
                json stored = json::parse(store_show(target, settings_));
                stored["name"] = alias.find(':') == std::string::npos ? alias + ":latest" : alias;
                return facts_of(std::move(stored));
            }
        json stored = json::parse(store_show(name, settings_));
        // A client may name models, not files of this machine.
        if (stored["source"] == "file") throw missing;
        return facts_of(std::move(stored));
    } catch (const coterie::Error& error) {
        if (error.status() == COTERIE_NOT_FOUND) throw missing;
        throw;
    }
}

Facts facts_of_file(const std::string& path) {
    return facts_of(json::parse(coterie::text_of([&](char* b, size_t c, size_t* n, coterie_error* e) {
        return coterie_store_show(path.c_str(), nullptr, b, c, n, e);
    })));
}

std::vector<Facts> ModelPool::list() const {
    std::vector<Facts> models;
    for (const auto& [alias, target] : settings_.aliases) {
        try {
            models.push_back(facts(alias));
        } catch (const std::exception&) {
            continue;
        }
    }
    const char* folder = settings_.models_dir.empty() ? nullptr : settings_.models_dir.c_str();
    const json stored = json::parse(coterie::text_of([&](char* b, size_t c, size_t* n, coterie_error* e) {
        return coterie_store_list(folder, b, c, n, e);
    }));
    for (const json& model : stored) {
        if (!model["complete"].get<bool>()) continue;
        const std::string name = model["name"];
        if (std::any_of(models.begin(), models.end(),
                        [&](const Facts& f) { return same_name(f.name, name); }))
            continue;
        try {
            models.push_back(facts_of(model));
        } catch (const std::exception&) {
            continue;  // damaged files don't hide the others
        }
    }
    return models;
}

std::string rfc3339(int64_t nanoseconds) {
    return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:06}Z", fmt::gmtime(std::time_t(nanoseconds / 1000000000)),
                       nanoseconds % 1000000000 / 1000);
}

int64_t now_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
}

}  // namespace server
