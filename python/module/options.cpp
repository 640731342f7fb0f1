// Option structs from dicts with the fields' names; a key that no field has is an error.
#include "handles.h"

namespace binding {
namespace {

// Reads the fields of one dict and knows at the end whether all keys were asked for.
class Fields {
  public:
    Fields(const py::dict& options, Texts& texts) : options_(options), texts_(texts) {}

    template <typename T>
    void read(const char* name, T& field) {
        if (const py::object value = take(name)) field = py::cast<T>(value);
    }
    void read(const char* name, const char*& field) {
        if (const py::object value = take(name)) field = texts_.keep(value);
    }
    // Empty when it isn't there, or None.
    py::object take(const char* name) {
        if (!options_.contains(name)) return {};
        ++taken_;
        py::object value = options_[name];
        return value.is_none() ? py::object() : value;
    }
    void finish(const char* what) const {
        if (taken_ != options_.size())
            raise(COTERIE_INVALID_ARGUMENT,
                  ("an option of " + std::string(what) + " is not known: " + std::string(py::str(options_)))
                      .c_str());
    }

  private:
    const py::dict& options_;
    Texts& texts_;
    size_t taken_ = 0;
};

}  // namespace

const char* Texts::keep(const py::handle& text) {
    kept.push_back(std::make_unique<std::string>(py::cast<std::string>(text)));
    return kept.back()->c_str();
}

coterie_generation_options generation_options(const py::dict& options, Texts& texts) {
    coterie_generation_options o = COTERIE_GENERATION_OPTIONS_INIT;
    Fields f(options, texts);
    f.read("flags", o.flags);
    f.read("max_tokens", o.max_tokens);
    f.read("temperature", o.temperature);
    f.read("top_p", o.top_p);
    f.read("min_p", o.min_p);
    f.read("typical_p", o.typical_p);
    f.read("top_k", o.top_k);
    f.read("repeat_penalty", o.repeat_penalty);
    f.read("presence_penalty", o.presence_penalty);
    f.read("frequency_penalty", o.frequency_penalty);
    f.read("penalty_tokens", o.penalty_tokens);
    f.read("top_logprobs", o.top_logprobs);
    f.read("seed", o.seed);
    f.read("json_schema", o.json_schema);
    f.read("grammar", o.grammar);
    f.read("priority", o.priority);
    f.read("time_limit_ms", o.time_limit_ms);
    f.read("tool_choice", o.tool_choice);
    if (const py::object stop = f.take("stop")) {
        for (const py::handle& text : stop) texts.stop.push_back(texts.keep(text));
        o.stop = texts.stop.data();
        o.stop_count = texts.stop.size();
    }
    if (const py::object bias = f.take("bias")) {
        for (const auto& [token, value] : py::cast<py::dict>(bias))
            texts.bias.push_back({py::cast<int32_t>(token), py::cast<float>(value)});
        o.bias = texts.bias.data();
        o.bias_count = texts.bias.size();
    }
    f.finish("a generation");
    return o;
}

coterie_chat_options chat_options(const py::dict& options, Texts& texts) {
    coterie_chat_options o = COTERIE_CHAT_OPTIONS_INIT;
    Fields f(options, texts);
    f.read("thinking", o.thinking);
    f.read("reasoning_effort", o.reasoning_effort);
    f.read("chat_template", o.chat_template);
    f.read("variables_json", o.variables_json);
    f.read("no_generation_prompt", o.no_generation_prompt);
    f.read("continue_last_message", o.continue_last_message);
    f.finish("a chat");
    return o;
}

coterie_engine_options engine_options(const py::dict& options, Texts& texts) {
    coterie_engine_options o = COTERIE_ENGINE_OPTIONS_INIT;
    Fields f(options, texts);
    f.read("threads", o.threads);
    f.read("devices", o.devices);
    f.read("isa", o.isa);
    f.read("context_tokens", o.context_tokens);
    f.read("parallel", o.parallel);
    f.read("step_rows", o.step_rows);
    f.read("key_type", o.key_type);
    f.read("value_type", o.value_type);
    f.read("queue", o.queue);
    f.read("no_prefix_reuse", o.no_prefix_reuse);
    f.read("mode", o.mode);
    f.read("draft_tokens", o.draft_tokens);
    f.read("host_experts", o.host_experts);
    f.read("device_memory_bytes", o.device_memory_bytes);
    f.finish("an engine");
    return o;
}

coterie_plan_request plan_request(const py::dict& options, Texts& texts) {
    coterie_plan_request o = COTERIE_PLAN_REQUEST_INIT;
    Fields f(options, texts);
    f.read("parallel", o.parallel);
    f.read("context_tokens", o.context_tokens);
    f.read("machine", o.machine);
    f.read("devices", o.devices);
    f.read("mode", o.mode);
    f.read("key_type", o.key_type);
    f.read("value_type", o.value_type);
    f.read("step_rows", o.step_rows);
    f.read("host_experts", o.host_experts);
    f.finish("a plan");
    return o;
}

coterie_reading_options reading_options(const py::dict& options) {
    coterie_reading_options o = COTERIE_READING_OPTIONS_INIT;
    Texts texts;
    Fields f(options, texts);
    f.read("pooling", o.pooling);
    f.read("raw", o.raw);
    f.read("dimensions", o.dimensions);
    f.read("truncate", o.truncate);
    f.read("priority", o.priority);
    f.read("time_limit_ms", o.time_limit_ms);
    f.finish("a reading");
    return o;
}

}  // namespace binding
