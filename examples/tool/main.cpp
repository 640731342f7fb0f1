// coterie: the tool around model files: look, check, convert, compare, measure.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <stdexcept>

#include "commands.h"

namespace tool {

std::string read_file(const std::string& path) {
    if (path == "-")
        return std::string((std::istreambuf_iterator<char>(std::cin)), std::istreambuf_iterator<char>());
    std::ifstream file(path, std::ios::binary);
    if (!file) throw std::runtime_error("cannot open '" + path + "'");
    return std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
}

std::vector<int64_t> read_numbers(const std::string& list) {
    std::vector<int64_t> numbers;
    std::string word;
    const auto take = [&] {
        size_t used = 0;
        try {
            numbers.push_back(std::stoll(word, &used));
        } catch (const std::exception&) {
            used = 0;
        }
        if (used == 0 || used != word.size())
            throw std::invalid_argument("'" + word + "' in '" + list +
                                        "' is not a whole number; write 1,2,3");
        word.clear();
    };
    for (const char c : list) {
        if (c == ',' || c == ' ') {
            if (!word.empty()) take();
        } else {
            word += c;
        }
    }
    if (!word.empty()) take();
    return numbers;
}

void add_cache_types(CLI::App& command, std::string& key_type, std::string& value_type) {
    command.add_option_function<std::string>(
        "--kv",
        [&key_type, &value_type](const std::string& types) {
            key_type = types.substr(0, types.find(','));
            value_type = types.substr(types.find(',') + 1);
        },
        "Type of the cache: f16, q8_0, f32; or of keys and values: q8_0,f16");
}

void add_host_options(CLI::App& command, bool& host_experts, uint64_t& device_memory) {
    command.add_flag("--host-experts", host_experts,
                     "Experts that don't fit on the devices may stay on the host and be computed there");
    command
        .add_option("--device-memory", device_memory,
                    "Most to use of each device: 8GB (default: all that is free)")
        ->transform(CLI::AsSizeValue(false));
}

int show_progress(void*, const char* what, uint64_t done, uint64_t total) {
    static const bool terminal = isatty(STDERR_FILENO) != 0;
    static auto last = std::chrono::steady_clock::time_point{};
    if (!terminal || total == 0) return 0;
    const auto now = std::chrono::steady_clock::now();
    if (done < total && now - last < std::chrono::milliseconds(100)) return 0;
    last = now;
    constexpr int width = 30;
    const int full = int(double(done) / double(total) * width);
    std::fprintf(stderr, "\r%-12s [%.*s%*s] %3.0f%%", what, full, "##############################",
                 width - full, "", 100.0 * double(done) / double(total));
    if (done >= total) std::fprintf(stderr, "\n");
    return 0;
}

// What a rank in another process has to say.
int show_line(void*, int32_t, const char* line) {
    std::fprintf(stderr, "coterie: %s\n", line);
    return 0;
}

}  // namespace tool

int main(int argc, char** argv) {
    CLI::App app{"Look at, check, convert, compare and measure model files.", "coterie"};
    app.require_subcommand(1);
    app.set_version_flag("--version", std::string("coterie ") + coterie_version());
    tool::Action action;
    tool::add_file_commands(app, action);
    tool::add_store_commands(app, action);
    tool::add_text_commands(app, action);
    tool::add_model_commands(app, action);
    tool::add_bench_command(app, action);
    tool::add_plan_command(app, action);
    tool::add_perplexity_command(app, action);
    CLI11_PARSE(app, argc, argv);
    try {
        int32_t served = 0;
        coterie::check(
            [&](coterie_error* e) { return coterie_serve(&tool::show_line, nullptr, &served, e); });
        return action && !served ? action() : 0;
    } catch (const std::exception& error) {
        std::cerr << "coterie: " << error.what() << "\n";
        return 1;
    }
}
