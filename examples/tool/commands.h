// The subcommands of `coterie`: each adds itself to the command line with what it does when chosen. A command
// returns the program's exit status.
#pragma once
#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "coterie/coterie.hpp"
#include "coterie/coterie_experimental.h"

namespace tool {

// What the chosen subcommand does; set by it when the command line is read.
using Action = std::function<int()>;

void add_file_commands(CLI::App& app, Action& action);       // inspect, verify, quantize, upcycle, synth
void add_store_commands(CLI::App& app, Action& action);      // list, show
void add_text_commands(CLI::App& app, Action& action);       // tokenize, render, parse
void add_model_commands(CLI::App& app, Action& action);      // logits, devices
void add_bench_command(CLI::App& app, Action& action);       // bench
void add_plan_command(CLI::App& app, Action& action);        // plan
void add_perplexity_command(CLI::App& app, Action& action);  // perplexity

std::string read_file(const std::string& path);              // "-": standard input
std::vector<int64_t> read_numbers(const std::string& list);  // "1,2,3"

// --kv TYPE, or --kv KEYS,VALUES. The texts must live as long as the command line is read.
void add_cache_types(CLI::App& command, std::string& key_type, std::string& value_type);
void add_host_options(CLI::App& command, bool& host_experts, uint64_t& device_memory);

// Shows progress on a terminal's standard error; its user pointer is ignored.
int show_progress(void* user, const char* what, uint64_t done, uint64_t total);

}  // namespace tool
