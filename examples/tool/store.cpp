// list, show.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "commands.h"

namespace tool {
namespace {

using nlohmann::json;

struct Arguments {
    std::string name, models_dir;
    bool json = false;
    const char* folder() const { return models_dir.empty() ? nullptr : models_dir.c_str(); }
};

std::string size_text(uint64_t bytes) {
    return bytes >= 1000000000 ? fmt::format("{:.1f} GB", double(bytes) / 1e9)
                               : fmt::format("{:.0f} MB", double(bytes) / 1e6);
}

std::string date_text(int64_t nanoseconds) {
    return fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time_t(nanoseconds / 1000000000)));
}

int list(const Arguments& a) {
    const std::string text = coterie::text_of([&](char* b, size_t c, size_t* n, coterie_error* e) {
        return coterie_store_list(a.folder(), b, c, n, e);
    });
    if (a.json) {
        std::cout << text;
        return 0;
    }
    const json models = json::parse(text);
    size_t width = 4;
    for (const json& m : models) width = std::max(width, m["name"].get_ref<const std::string&>().size());
    std::cout << fmt::format("{:{}}  {:12}  {:>9}  {:10}  {}\n", "NAME", width, "ID", "SIZE", "MODIFIED", "");
    for (const json& m : models)
        std::cout << fmt::format("{:{}}  {:12}  {:>9}  {:10}  {}\n", m["name"].get<std::string>(), width,
                                 m["digest"].get<std::string>().substr(0, 12),
                                 size_text(m["size"].get<uint64_t>()),
                                 date_text(m["modified_ns"].get<int64_t>()),
                                 m["complete"].get<bool>() ? "" : "not usable: coterie show says why");
    return 0;
}

int show(const Arguments& a) {
    const std::string text = coterie::text_of([&](char* b, size_t c, size_t* n, coterie_error* e) {
        return coterie_store_show(a.name.c_str(), a.folder(), b, c, n, e);
    });
    if (a.json) {
        std::cout << text;
        return 0;
    }
    const json m = json::parse(text);
    const auto line = [](const char* what, const std::string& value) {
        if (!value.empty()) std::cout << fmt::format("{:14} {}\n", what, value);
    };
    line("name", m["name"]);
    line("from", m["source"]);
    line("file", m["path"]);
    line("size", size_text(m["size"].get<uint64_t>()));
    line("modified", date_text(m["modified_ns"].get<int64_t>()));
    line("digest", m["digest"]);
    line("family", m["family"]);
    line("parameters", m["parameter_size"]);
    line("quantization", m["quantization_level"]);
    if (!m["parameters"].empty()) line("options", m["parameters"].dump());
    line("system", m["system"]);
    if (!m["template"].get_ref<const std::string&>().empty()) line("template", "its own; --json prints it");
    for (const json& part : m["parts"])
        line("part", fmt::format("{}: {} bytes, {}", part["type"].get<std::string>(),
                                 part["size"].get<uint64_t>(), part["state"].get<std::string>()));
    line("problem", m["problem"]);
    return m["complete"].get<bool>() ? 0 : 1;
}

}  // namespace

void add_store_commands(CLI::App& app, Action& action) {
    auto a = std::make_shared<Arguments>();
    CLI::App* c =
        app.add_subcommand("list", "The models that Ollama, Hugging Face and you stored on this machine");
    c->add_option("--models-dir", a->models_dir, "A folder of GGUF files or a store to look in first");
    c->add_flag("--json", a->json, "As JSON");
    c->callback([a, &action] { action = [a] { return list(*a); }; });

    c = app.add_subcommand("show", "One of them: its files, options, template");
    c->add_option("name", a->name, "NAME[:TAG], digest or path")->required();
    c->add_option("--models-dir", a->models_dir, "A folder of GGUF files or a store to look in first");
    c->add_flag("--json", a->json, "As JSON");
    c->callback([a, &action] { action = [a] { return show(*a); }; });
}

}  // namespace tool
