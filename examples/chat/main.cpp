// coterie-chat: talk to a model in a terminal, or from a script with --prompt or piped input.
#include <histedit.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <iostream>

#include "box_model.h"
#include "conversation.h"
#include "coterie/coterie_experimental.h"

namespace {

std::atomic<bool> stop_answer{false};

void on_interrupt(int) {
    stop_answer.store(true);
}

const char* current_prompt = "> ";
char* prompt_of(EditLine*) {
    return const_cast<char*>(current_prompt);
}

// Line editing with history.
class LineEditor {
  public:
    LineEditor() : line_(el_init("coterie-chat", stdin, stdout, stderr)), history_(history_init()) {
        el_set(line_, EL_PROMPT, &prompt_of);
        el_set(line_, EL_EDITOR, "emacs");
        el_set(line_, EL_SIGNAL, 1);
        HistEvent event;
        history(history_, &event, H_SETSIZE, 1000);
        el_set(line_, EL_HIST, history, history_);
    }
    ~LineEditor() {
        history_end(history_);
        el_end(line_);
    }
    LineEditor(const LineEditor&) = delete;
    LineEditor& operator=(const LineEditor&) = delete;

    // False at the end of the input.
    bool read(std::string& text) {
        int count = 0;
        const char* line = el_gets(line_, &count);
        if (!line || count <= 0) return false;
        text.assign(line, size_t(count));
        while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
        HistEvent event;
        if (!text.empty()) history(history_, &event, H_ENTER, text.c_str());
        return true;
    }

  private:
    EditLine* line_;
    History* history_;
};

struct Program {
    explicit Program(coterie::Engine e) : engine(std::move(e)) {}

    coterie::Engine engine;
    Conversation conversation{engine};
    ChatSettings settings;
    bool colour = isatty(STDOUT_FILENO) != 0;
    bool quiet = false;

    void answer(const std::string& text) {
        stop_answer.store(false);
        bool thinking = false;
        conversation.ask(text, settings, stop_answer, [&](const std::string& piece, bool reasoning) {
            if (reasoning != thinking && colour) std::cout << (reasoning ? "\x1b[2m" : "\x1b[0m");
            if (thinking && !reasoning) std::cout << "\n";
            thinking = reasoning;
            std::cout << piece << std::flush;
        });
        std::cout << (thinking && colour ? "\x1b[0m\n" : "\n") << std::flush;
        if (stop_answer.load()) std::cout << "[stopped]\n";
    }

    // Without the chat template: what a base model is for.
    void continue_texts(const std::vector<std::string>& texts) {
        for (const std::string& text : texts) {
            std::cout << text << std::flush;
            conversation.complete(text, settings, stop_answer,
                                  [](const std::string& piece, bool) { std::cout << piece << std::flush; });
            std::cout << "\n";
        }
    }

    // Per second of the last answer.
    void speed(std::FILE* to) const {
        const coterie_generation_statistics& s = conversation.last();
        const int64_t computed = s.prompt_tokens - s.cached_tokens, decoded = s.generated_tokens - 1;
        std::fprintf(to,
                     "[prompt %lld tokens (%lld cached), %.1f tokens/s; answer %lld tokens, %.1f tokens/s]\n",
                     static_cast<long long>(s.prompt_tokens), static_cast<long long>(s.cached_tokens),
                     s.prefill_us > 0 ? double(computed) * 1e6 / double(s.prefill_us) : 0.0,
                     static_cast<long long>(s.generated_tokens),
                     s.decode_us > 0 && decoded > 0 ? double(decoded) * 1e6 / double(s.decode_us) : 0.0);
    }

    // False to leave.
    bool command(const std::string& line) {
        std::istringstream words(line);
        std::string name;
        words >> name;
        if (name == "/quit" || name == "/exit" || name == "/bye") return false;
        if (name == "/reset") {
            conversation.reset();
            std::cout << "[a new conversation]\n";
        } else if (name == "/system") {
            std::string text;
            std::getline(words >> std::ws, text);
            conversation.set_system(text);
            std::cout << (text.empty() ? "[no system message]\n"
                                       : "[system message set; a new conversation]\n");
        } else if (name == "/set") {
            std::string key, value;
            words >> key >> value;
            try {
                settings.set(key, value);
            } catch (const std::invalid_argument& error) {
                std::cout << "[" << error.what() << "]\n";
            }
        } else if (name == "/stats") {
            speed(stdout);
            std::cout << engine.describe();
        } else {
            std::cout << "/reset            forget the conversation\n"
                         "/system TEXT      set the system message\n"
                         "/set NAME VALUE   temperature, top_p, min_p, top_k, repeat_penalty, max_tokens, "
                         "seed, thinking\n"
                         "/stats            speed of the last answer, memory\n"
                         "/quit             leave (or Ctrl-D); Ctrl-C stops an answer\n";
        }
        return true;
    }

    void interactive() {
        LineEditor editor;
        std::string line;
        std::cout << "Type a message, or /help. Ctrl-C stops an answer, Ctrl-D leaves.\n";
        for (;;) {
            std::signal(SIGINT, SIG_IGN);
            if (!editor.read(line)) break;
            std::signal(SIGINT, on_interrupt);
            if (line.empty()) continue;
            if (line[0] == '/') {
                if (!command(line)) break;
                continue;
            }
            try {
                answer(line);
            } catch (const coterie::Error& error) {
                std::cout << "[" << error.what() << "]\n";
                if (error.status() == COTERIE_DEVICE_LOST) return;
            }
        }
        std::cout << "\n";
    }
};

struct Arguments {
    std::string model, devices, isa, key_type, value_type, mode, system;
    std::vector<std::string> prompts;
    int threads = 0, drafts = 0;
    int64_t context = 0;
    bool quiet = false, raw = false, host_experts = false;
    uint64_t device_memory = 0;
    ChatSettings settings;
    double temperature = -1;
};

// What a rank in another process has to say.
int show_line(void*, int32_t, const char* line) {
    std::fprintf(stderr, "coterie-chat: %s\n", line);
    return 0;
}

int progress(void* user, const char* what, uint64_t done, uint64_t total) {
    if (*static_cast<bool*>(user) && total > 0)
        std::fprintf(stderr, "\r%s %3.0f%%%s", what, 100.0 * double(done) / double(total),
                     done >= total ? "\r\x1b[K" : "");
    return stop_answer.load() ? 1 : 0;
}

void run(Arguments& a) {
    if (a.model.empty()) {
        a.model = box::model_path();
        if (!a.quiet) std::cerr << "coterie-chat: " << box::notice(a.model) << "\n";
    }
    const coterie::Model model(a.model);
    bool show_progress = isatty(STDERR_FILENO) && !a.quiet;
    coterie_engine_options o = COTERIE_ENGINE_OPTIONS_INIT;
    o.threads = a.threads;
    o.context_tokens = a.context;
    if (!a.devices.empty()) o.devices = a.devices.c_str();
    if (!a.mode.empty()) o.mode = a.mode.c_str();
    if (!a.isa.empty()) o.isa = a.isa.c_str();
    if (!a.key_type.empty()) o.key_type = a.key_type.c_str();
    if (!a.value_type.empty()) o.value_type = a.value_type.c_str();
    o.draft_tokens = a.drafts;
    o.host_experts = a.host_experts;
    o.device_memory_bytes = a.device_memory;
    o.progress = progress;
    o.progress_user = &show_progress;
    Program program(coterie::Engine(model, o));
    program.settings = a.settings;
    program.quiet = a.quiet;
    if (a.temperature >= 0) program.settings.set("temperature", std::to_string(a.temperature));
    if (!a.system.empty()) program.conversation.set_system(a.system);
    std::signal(SIGINT, on_interrupt);

    if (a.raw) {
        program.continue_texts(a.prompts);
    } else if (!a.prompts.empty()) {
        for (const std::string& prompt : a.prompts) program.answer(prompt);
    } else if (!isatty(STDIN_FILENO)) {
        const std::string text((std::istreambuf_iterator<char>(std::cin)), std::istreambuf_iterator<char>());
        if (text.empty())
            throw std::invalid_argument("the standard input is empty; give a prompt there or with --prompt");
        program.answer(text);
    } else {
        program.interactive();
    }
    if (!a.quiet && program.conversation.last().generated_tokens > 0) program.speed(stderr);
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app{"Talk to a model from a GGUF file.", "coterie-chat"};
    Arguments a;
    app.add_option("model", a.model, "GGUF file, or one file of a split set (none: the model in the box)");
    app.add_option("-p,--prompt", a.prompts,
                   "Answer this and leave; may be repeated within one conversation");
    app.add_option("--system", a.system, "System message");
    app.add_option("-t,--threads", a.threads, "Threads of the CPU (0: all usable cores)");
    app.add_option("-c,--ctx", a.context, "Context in tokens (0: the model's, at most 8192)");
    app.add_option("--devices", a.devices, "cpu, cpu:N (N ranks), cuda, cuda:0,1 or reference");
    app.add_option("--mode", a.mode, "How ranks share the model: auto, tensor, expert or layer");
    app.add_option("--isa", a.isa, "Instruction set of the CPU: avx512, avx2, portable");
    app.add_option_function<std::string>(
        "--kv",
        [&a](const std::string& types) {
            a.key_type = types.substr(0, types.find(','));
            a.value_type = types.substr(types.find(',') + 1);
        },
        "Type of the cache: f16, q8_0, f32; or of keys and values: q8_0,f16");
    app.add_flag("--host-experts", a.host_experts,
                 "Experts that don't fit on the devices may stay on the host and be computed there");
    app.add_option("--device-memory", a.device_memory,
                   "Most to use of each device: 8GB (default: all that is free)")
        ->transform(CLI::AsSizeValue(false));
    app.add_option("--drafts", a.drafts, "Guessed tokens to check in a step (0: none)");
    app.add_option("-n,--max-tokens", a.settings.max_tokens, "Most tokens of an answer");
    app.add_option("--temperature", a.temperature, "0: always the likeliest token");
    app.add_option("--top-p", a.settings.top_p, "Nucleus sampling");
    app.add_option("--top-k", a.settings.top_k, "Sample among the k likeliest tokens");
    app.add_option("--seed", a.settings.seed, "Seed of the sampling");
    app.add_flag_callback(
        "--think", [&] { a.settings.thinking = 1; }, "Turn thinking on where the template can");
    app.add_flag_callback(
        "--no-think", [&] { a.settings.thinking = -1; }, "Turn thinking off where the template can");
    app.add_flag("--raw", a.raw, "Continue the --prompt text as it stands, without the chat template");
    app.add_flag("-q,--quiet", a.quiet, "Only the answer");
    CLI11_PARSE(app, argc, argv);
    try {
        int32_t served = 0;
        coterie::check([&](coterie_error* e) { return coterie_serve(&show_line, nullptr, &served, e); });
        if (!served) run(a);
        return 0;
    } catch (const std::exception& error) {
        std::cerr << "coterie-chat: " << error.what() << "\n";
        return 1;
    }
}
