// coterie-server: answers clients of Ollama and OpenAI with models of this machine.
#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>

#include "box_model.h"
#include "embeddings.h"
#include "ollama.h"
#include "openai.h"
#include "own_store.h"
#include "page.h"

namespace {

using namespace server;

// A model on the command line: a path gets the name of its file, other words stay what they are.
void add_model(const std::string& word, Settings& settings) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(word, error)) {
        settings.aliases[word] = word;
        return;
    }
    std::string stem = std::filesystem::path(word).stem().string();
    if (const size_t shard = stem.find("-00001-of-"); shard != std::string::npos) stem.erase(shard);
    settings.aliases[stem] = std::filesystem::absolute(word).string();
}

// Nobody named a model: the box's is listed beside the stored ones, and loaded when it is asked for.
void add_box_model(Settings& settings) {
    try {
        const std::string path = box::model_path();
        settings.aliases["coterie-box"] = path;
        std::fprintf(stderr, "%s; ask for coterie-box\n", box::notice(path).c_str());
    } catch (const std::exception& error) {
        std::fprintf(stderr, "warning: %s\n", error.what());
    }
}

sigset_t end_signals() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    return set;
}

int serve(const Settings& settings, const std::vector<std::string>& preload) {
    // Signals are waited for by one thread; all others leave them alone.
    const sigset_t signals = end_signals();
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    signal(SIGPIPE, SIG_IGN);

    std::atomic<bool> stopping{false}, ended{false};
    Metrics metrics;
    ModelPool pool(settings);
    Http http(settings, metrics, stopping);
    add_ollama_answers(http, pool, metrics);
    add_ollama_listings(http, pool, settings);
    add_ollama_store(http, pool, settings);
    add_openai_answers(http, pool, metrics);
    add_openai_listings(http, pool, metrics, settings);
    add_embeddings(http, pool, metrics);
    add_page(http);
    for (const std::string& name : preload) pool.acquire(name, std::nullopt, 0, [] { return false; });

    const int port = http.bind();
    if (port < 0) {
        std::fprintf(stderr,
                     "coterie-server: can't listen on %s:%d; is another server (ollama?) running there?\n",
                     settings.host.c_str(), settings.port);
        return 1;
    }
    std::fprintf(stderr, "listening on http://%s:%d\n", settings.host.c_str(), port);
    std::thread waiter([&] {
        timespec moment{0, 200000000};
        while (!ended && sigtimedwait(&signals, nullptr, &moment) < 0) http.sweep();
        if (ended) return;
        std::fprintf(stderr, "ending: no new requests; running ones have %d s\n", settings.drain_seconds);
        http.drain();
        for (int i = 0; i < settings.drain_seconds * 5 && !ended; ++i)
            if (sigtimedwait(&signals, nullptr, &moment) > 0) break;  // asked twice
        stopping = true;
    });
    const bool ok = http.server().listen_after_bind();
    ended = true;
    waiter.join();
    return ok ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    Settings s;
    std::vector<std::string> warnings, models, origins;
    read_environment(s, warnings);
    CLI::App app{"Serves models to clients of Ollama and OpenAI.", "coterie-server"};
    app.set_version_flag("--version", std::string("coterie-server ") + coterie_version());
    std::string keep_alive;
    bool lazy = false;
    app.add_option("models", models,
                   "GGUF files or names of stored models, loaded at the start (none, and no --models-dir: "
                   "the model in the "
                   "box is there as coterie-box, beside the stored ones)");
    app.add_option("--host", s.host, "Address to listen on");
    app.add_option("--port", s.port, "Port (0: any free one)")->check(CLI::Range(0, 65535));
    app.add_option("--api-key", s.api_key, "Key that clients must send; also COTERIE_API_KEY");
    app.add_flag("--insecure", s.insecure, "Listen beyond this machine without a key");
    app.add_option("--parallel", s.parallel, "Requests that a model answers at once")
        ->check(CLI::Range(1, 1024));
    app.add_option("--ctx", s.context,
                   "Tokens of context of one request (default: the model's, at most 8192)");
    app.add_option("--devices", s.devices, "cpu, cpu:N");
    app.add_option("--threads", s.threads, "Threads of the CPU device (0: all usable cores)");
    app.add_option("--kv-type", s.key_value_type, "Type of the cache: f16, q8_0, f32");
    app.add_option("--keep-alive", keep_alive, "How long an idle model stays: 5m, 1h30m, 0, -1 (for ever)");
    app.add_option("--max-models", s.max_models, "Models loaded at once")->check(CLI::Range(1, 1000));
    app.add_option("--max-queue", s.max_queue, "Requests that may wait before 503")
        ->check(CLI::Range(1, 1000000));
    app.add_option("--models-dir", s.models_dir, "A folder of GGUF files, or a store, to look in first");
    app.add_option("--store", s.store, "Where pulled and created models lie; also COTERIE_MODELS");
    app.add_option("--registry", s.registry, "Where models without a host in their name are pulled from");
    app.add_flag("--read-only", s.read_only, "Refuse to pull, create, copy and delete models");
    app.add_option("--max-memory", s.max_memory,
                   "Bytes for all loaded models (8G, 512M; default: the machine's)")
        ->transform(CLI::AsSizeValue(false));
    app.add_option("--warn-temperature", s.warn_temperature,
                   "Degrees from which a device is warned of (0: never)");
    app.add_option("--pause-temperature", s.pause_temperature,
                   "Degrees from which new answers are refused until it has cooled (0: never)");
    app.add_option("--sensors", s.sensors, "Where the system shows its sensors")->group("");
    app.add_option("--max-body", s.max_body, "Bytes of a request's body")->transform(CLI::AsSizeValue(false));
    app.add_option("--max-connections", s.max_connections, "Connections served at once")
        ->check(CLI::Range(1, 100000));
    app.add_option("--header-timeout", s.header_seconds,
                   "Seconds that a connection has for a request's headers")
        ->check(CLI::Range(1, 3600));
    app.add_option("--origin", origins, "Another origin that browsers may ask from; * stands for anything");
    app.add_option("--drain", s.drain_seconds, "Seconds that running requests have when the server is ended");
    app.add_flag("--lazy", lazy, "Load the models named when they are asked for, not at the start");
    CLI11_PARSE(app, argc, argv);
    try {
        if (!keep_alive.empty()) s.keep_alive = parse_duration(keep_alive);
        s.origins.insert(s.origins.end(), origins.begin(), origins.end());
        for (const std::string& word : models) add_model(word, s);
        std::vector<std::string> preload;
        if (!lazy)
            for (const auto& [name, target] : s.aliases) preload.push_back(name);
        if (models.empty() && s.models_dir.empty()) add_box_model(s);
        if (!is_loopback(s.host) && s.api_key.empty() && !s.insecure) {
            std::fprintf(
                stderr,
                "coterie-server: everybody who reaches %s could use it: set --api-key, or --insecure if "
                "that is meant\n",
                s.host.c_str());
            return 1;
        }
        if (s.store.empty()) s.store = OwnStore::default_root();
        setenv("COTERIE_MODELS", s.store.c_str(), 1);  // the library looks there too
        for (const std::string& warning : warnings) std::fprintf(stderr, "warning: %s\n", warning.c_str());
        std::fprintf(stderr, "coterie-server %s\n%s", coterie_version(), effective_values(s).c_str());
        return serve(s, preload);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "coterie-server: %s\n", error.what());
        return 1;
    }
}
