// plan: where a model would lie on a machine, and how fast it would be; reads headers only.
#include <iostream>

#include "commands.h"

namespace tool {
namespace {

struct Arguments {
    std::string model, machine, devices, key_type, value_type, mode;
    int64_t context = 0;
    int parallel = 1;
    bool host_experts = false, json = false;
    uint64_t device_memory = 0;
};

int plan(const Arguments& a) {
    const coterie::Model model(a.model);
    coterie_plan_request r = COTERIE_PLAN_REQUEST_INIT;
    r.context_tokens = a.context;
    r.parallel = a.parallel;
    r.host_experts = a.host_experts;
    r.device_memory_bytes = a.device_memory;
    if (!a.machine.empty()) r.machine = a.machine.c_str();
    if (!a.devices.empty()) r.devices = a.devices.c_str();
    if (!a.mode.empty()) r.mode = a.mode.c_str();
    if (!a.key_type.empty()) r.key_type = a.key_type.c_str();
    if (!a.value_type.empty()) r.value_type = a.value_type.c_str();
    int32_t fits = 0;
    std::cout << coterie::text_of([&](char* b, size_t c, size_t* n, coterie_error* e) {
        return coterie_plan(model.get(), &r, a.json ? COTERIE_JSON : COTERIE_TEXT, &fits, b, c, n, e);
    });
    return fits ? 0 : 2;
}

}  // namespace

void add_plan_command(CLI::App& app, Action& action) {
    auto a = std::make_shared<Arguments>();
    CLI::App* c =
        app.add_subcommand("plan", "Where a model would lie on a machine, whether it fits, how fast it is");
    c->add_option("model", a->model, "GGUF file")->required();
    c->add_option(
        "--machine", a->machine,
        "4xv100-32g, 4x3090, 2x3090, 1xh200, 1x4090-64g, 2-socket-cpu, or a JSON file (default: this one)");
    c->add_option("--devices", a->devices, "Of this machine: cpu, cpu:N, cuda, cuda:0,1");
    c->add_option("-c,--ctx", a->context, "Tokens of context of one sequence (0: what fits, at most 8192)");
    c->add_option("--parallel", a->parallel, "Sequences at once");
    add_cache_types(*c, a->key_type, a->value_type);
    c->add_option("--mode", a->mode, "auto, tensor, expert or layer");
    add_host_options(*c, a->host_experts, a->device_memory);
    c->add_flag("--json", a->json, "As JSON");
    c->callback([a, &action] { action = [a] { return plan(*a); }; });
    c->footer("Exit status: 0 if it fits, 2 if not.");
}

}  // namespace tool
