// /api/pull, /api/create, /api/copy, /api/delete, /api/blobs: all of them change only the server's own store.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "ollama.h"
#include "own_store.h"
#include "registry.h"

namespace server {
namespace {

namespace fs = std::filesystem;
using Tell = std::function<void(const json&)>;

std::string name_in(const json& request, const char* key, const char* older = nullptr) {
    std::string name = string_of(request, key);
    if (name.empty() && older) name = string_of(request, older);
    if (name.empty()) throw HttpError(400, fmt::format("{} is required", key));
    return name;
}

// Lines as they come, or only the last one.
void tell_all(const json& request, httplib::Response& response, std::function<void(const Tell&)> produce) {
    if (!bool_of(request, "stream").value_or(true)) {
        json last;
        produce([&](const json& line) { last = line; });
        return reply(response, last);
    }
    stream(
        response, "application/x-ndjson",
        [produce](Writer& writer) { produce([&](const json& line) { writer.line(line); }); },
        [](Writer& writer, const std::exception& error) {
            writer.line({{"error", error.what()}});
        });
}

// One model, put together from what is there and what the request says.
class Creation {
  public:
    Creation(OwnStore& store, const ModelPool& pool, std::function<bool()> gone)
        : store_(store), pool_(pool), gone_(std::move(gone)) {}

    void take_model(const std::string& name, const Tell& tell) {
        facts_ = pool_.facts(name);
        if (const std::string problem = facts_.stored["problem"]; !problem.empty())
            throw HttpError(400, problem);
        int weights = 0;
        for (const json& part : facts_.stored["parts"]) weights += part["type"] == "model" ? 1 : 0;
        if (weights > 1)
            throw HttpError(
                400, fmt::format("'{}' is a set of files; only models in one file can be taken over", name));
        bool any = false;
        for (const json& part : facts_.stored["parts"]) {
            const std::string kind = part["type"];
            any = any || kind == "model";
            take_part(kind == "file" ? "model" : kind, part, tell);
        }
        if (!any) take_part("model", {{"path", facts_.path}, {"digest", ""}}, tell);
    }

    void take_blob(const std::string& digest_text, const Tell& tell) {
        const std::string digest = digest_of(digest_text);
        if (digest.empty()) throw HttpError(400, fmt::format("invalid digest '{}'", digest_text));
        if (!store_.has_blob(digest))
            throw HttpError(400,
                            fmt::format("blob sha256:{} is not here: send it to /api/blobs first", digest));
        facts_ = facts_of_file(store_.blob_path(digest));
        add("model", digest, fs::file_size(store_.blob_path(digest)));
        tell({{"status", "using existing layer sha256:" + digest}});
    }

    void set_text(const char* kind, const std::string& text, const Tell& tell) {
        const std::string digest = store_.add_text(text);
        drop(kind);
        add(kind, digest, text.size());
        tell({{"status", "creating new layer sha256:" + digest}});
    }
    void drop(const std::string& kind) {
        layers_.erase(std::remove_if(layers_.begin(), layers_.end(),
                                     [&](const json& one) {
                                         return one["mediaType"] == "application/vnd.ollama.image." + kind;
                                     }),
                      layers_.end());
    }
    void add_licence(const std::string& text, const Tell& tell) {
        const std::string digest = store_.add_text(text);
        add("license", digest, text.size());
        tell({{"status", "creating new layer sha256:" + digest}});
    }
    const Facts& facts() const { return facts_; }

    // renderer, parser: of the request; empty: the source's.
    void finish(const StoreName& name, const json& more, const Tell& tell) {
        if (config_.is_null() || !more.empty()) {
            json config{{"model_format", "gguf"},
                        {"model_family", facts_.family},
                        {"model_families", facts_.families},
                        {"model_type", facts_.parameter_size},
                        {"file_type", facts_.quantization},
                        {"architecture", "amd64"},
                        {"os", "linux"}};
            for (const char* key : {"renderer", "parser"})
                if (const std::string value = facts_.stored.value(key, ""); !value.empty())
                    config[key] = value;
            config.update(more);
            const std::string text = text_of(config);
            config_ = layer("config", store_.add_text(text), text.size());
        }
        tell({{"status", "writing manifest"}});
        store_.write_manifest(name, text_of(manifest_of(config_, layers_)));
        tell({{"status", "success"}});
    }

  private:
    void take_part(const std::string& kind, const json& part, const Tell& tell) {
        const std::string path = part["path"];
        std::string digest = part["digest"];
        if (digest.empty()) {
            tell({{"status", "hashing " + fs::path(path).filename().string()}});
            digest = hash_file(path, gone_);
        }
        const std::string status = store_.has_blob(digest) ? "using existing layer" : "linking layer";
        store_.add_link(digest, path);
        const json one = layer(kind, digest, fs::file_size(path));
        if (kind == "config")
            config_ = one;
        else
            layers_.push_back(one);
        tell({{"status", status + " sha256:" + digest}});
    }
    void add(const std::string& kind, const std::string& digest, uint64_t size) {
        layers_.push_back(layer(kind, digest, size));
    }

    OwnStore& store_;
    const ModelPool& pool_;
    const std::function<bool()> gone_;
    Facts facts_;
    json config_, layers_ = json::array();
};

void check_parameters(const json& parameters) {
    static const std::set<std::string> known{"num_ctx",
                                             "num_batch",
                                             "num_gpu",
                                             "main_gpu",
                                             "use_mmap",
                                             "num_thread",
                                             "num_keep",
                                             "seed",
                                             "num_predict",
                                             "temperature",
                                             "top_k",
                                             "top_p",
                                             "min_p",
                                             "typical_p",
                                             "repeat_last_n",
                                             "stop",
                                             "mirostat",
                                             "mirostat_tau",
                                             "repeat_penalty",
                                             "presence_penalty",
                                             "frequency_penalty",
                                             "tfs_z",
                                             "numa",
                                             "mirostat_eta",
                                             "use_mlock",
                                             "low_vram",
                                             "penalize_newline",
                                             "f16_kv",
                                             "vocab_only"};
    for (const auto& [key, value] : parameters.items())
        if (!known.count(key)) throw HttpError(400, fmt::format("unknown parameter '{}'", key));
    Sampling().read(parameters);
}

void create(OwnStore& store, const ModelPool& pool, const json& request, const std::function<bool()>& gone,
            const Tell& tell) {
    const StoreName name = StoreName::parse(name_in(request, "model", "name"));
    store.prepare();
    Creation creation(store, pool, gone);
    const std::string from = string_of(request, "from");
    const json files = request.value("files", json::object());
    if (!from.empty())
        creation.take_model(from, tell);
    else if (files.is_object() && files.size() == 1 && files.begin()->is_string())
        creation.take_blob(files.begin()->get<std::string>(), tell);
    else
        throw HttpError(400, "name the model to start 'from', or one GGUF file in 'files'");
    for (const char* kind : {"template", "system"})
        if (const std::string text = string_of(request, kind); !text.empty())
            creation.set_text(kind, text, tell);
    if (const auto given = request.find("parameters"); given != request.end() && given->is_object()) {
        json parameters = creation.facts().stored.value("parameters", json::object());
        parameters.update(*given);
        creation.set_text("params", text_of(parameters), tell);
    }
    if (const auto messages = request.find("messages"); messages != request.end() && !messages->is_null()) {
        checked_messages(request);
        creation.set_text("messages", text_of(*messages), tell);
    }
    if (const auto license = request.find("license"); license != request.end() && !license->is_null()) {
        creation.drop("license");
        for (const json& text : license->is_array() ? *license : json::array({*license})) {
            if (!text.is_string()) throw HttpError(400, "license must be a text or an array of texts");
            creation.add_licence(text, tell);
        }
    }
    json more = json::object();
    if (!string_of(request, "template").empty()) more["renderer"] = "template";
    for (const char* key : {"renderer", "parser"})
        if (const std::string value = string_of(request, key); !value.empty()) more[key] = value;
    creation.finish(name, more, tell);
}

void receive_blob(OwnStore& store, const std::string& digest, const httplib::ContentReader& body,
                  const std::function<bool()>& gone) {
    const OwnStore::Claim claim(store, digest, gone);
    const std::string path = store.blob_path(digest) + "-upload";
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    Sha256 hash;
    const bool whole = body([&](const char* data, size_t length) {
        hash.add(data, length);
        return bool(file.write(data, std::streamsize(length)));
    });
    file.close();
    std::error_code error;
    const std::string actual = hash.hex();
    if (whole && file && actual == digest) {
        fs::rename(path, store.blob_path(digest), error);
        if (!error) return;
    }
    fs::remove(path, error);
    if (!whole || !file) throw HttpError(500, fmt::format("'{}' could not be written whole", path));
    throw HttpError(
        400, fmt::format("digest mismatch, expected \"sha256:{}\", got \"sha256:{}\"", digest, actual));
}

std::string digest_in(const httplib::Request& request) {
    const std::string digest = digest_of(request.matches[1]);
    if (digest.empty())
        throw HttpError(400, fmt::format("invalid digest format \"{}\"", request.matches[1].str()));
    return digest;
}

}  // namespace

void add_ollama_store(Http& http, ModelPool& pool, const Settings& settings) {
    const auto store = std::make_shared<OwnStore>(settings.store);
    const auto writable = [&settings] {
        if (settings.read_only)
            throw HttpError(403, "this server was started with --read-only: its models can't be changed");
    };
    http.post("/api/pull", [&, store, writable](const httplib::Request& r, const std::string& body,
                                                httplib::Response& response) {
        writable();
        const json request = read_body(body);
        const StoreName name = StoreName::parse(name_in(request, "model", "name"));
        store->prepare();
        const Pull pull = begin_pull(name, settings.registry, bool_of(request, "insecure").value_or(false),
                                     settings.registry_login);
        const Peer peer(r, http);
        tell_all(request, response,
                 [=](const Tell& tell) { finish_pull(pull, *store, tell, [peer] { return peer.gone(); }); });
    });
    http.post("/api/create", [&, store, writable](const httplib::Request& r, const std::string& body,
                                                  httplib::Response& response) {
        writable();
        const json request = read_body(body);
        StoreName::parse(name_in(request, "model", "name"));
        for (const char* key : {"quantize", "quantization", "adapters", "modelfile", "path"})
            if (request.contains(key) && !request[key].is_null() && !request[key].empty())
                throw HttpError(
                    400, fmt::format("'{}' is not supported here; create takes from, files (one GGUF), "
                                     "template, system, parameters, messages and license",
                                     key));
        if (const auto given = request.find("parameters"); given != request.end() && given->is_object())
            check_parameters(*given);
        if (const std::string from = string_of(request, "from"); !from.empty()) pool.facts(from);
        const Peer peer(r, http);
        tell_all(request, response, [=, &pool](const Tell& tell) {
            create(
                *store, pool, request, [peer] { return peer.gone(); }, tell);
        });
    });
    http.post("/api/copy", [&, store, writable](const httplib::Request& r, const std::string& body,
                                                httplib::Response& response) {
        writable();
        const json request = read_body(body);
        const std::string source = name_in(request, "source"), destination = name_in(request, "destination");
        try {
            pool.facts(source);
        } catch (const HttpError& error) {
            if (error.status != 404) throw;
            throw HttpError(404, fmt::format("model \"{}\" not found", source));
        }
        const Peer peer(r, http);
        create(
            *store, pool, {{"model", destination}, {"from", source}}, [peer] { return peer.gone(); },
            [](const json&) {});
        response.status = 200;
    });
    http.remove("/api/delete", [&, store, writable](const httplib::Request&, const std::string& body,
                                                    httplib::Response& response) {
        writable();
        const json request = read_body(body);
        const std::string text = name_in(request, "model", "name");
        const StoreName name = StoreName::parse(text);
        if (!store->has(name)) {
            const Facts facts = pool.facts(text);
            throw HttpError(
                403, fmt::format("'{}' is not in this server's own store, and others are only read ({})",
                                 text, facts.path));
        }
        pool.unload(text);
        store->remove(name);
        response.status = 200;
    });
    http.get("/api/blobs/(.+)",
             [store](const httplib::Request& r, const std::string&, httplib::Response& response) {
                 if (!store->has_blob(digest_in(r))) throw HttpError(404, "blob not found");
                 response.status = 200;
             });
    http.upload("/api/blobs/(.+)",
                [&, store, writable](const httplib::Request& r, const httplib::ContentReader& body,
                                     httplib::Response& response) {
                    writable();
                    const std::string digest = digest_in(r);
                    response.status = 200;
                    if (store->has_blob(digest)) return;
                    store->prepare();
                    const Peer peer(r, http);
                    receive_blob(*store, digest, body, [peer] { return peer.gone(); });
                    response.status = 201;
                });
    http.post("/api/push", [](const httplib::Request&, const std::string&, httplib::Response&) {
        throw HttpError(501, "this server does not push models");
    });
}

}  // namespace server
