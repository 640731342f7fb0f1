// Chat templates of our own, for files that bring none: short, without dates or default system prompts. They
// are Jinja, so everything that is known of templates (probing, tools put into words) holds for them too.
#include <array>
#include <utility>

#include "text/chat_template.h"

namespace coterie::text {
namespace {

struct Builtin {
    std::string_view name;
    const char* source;
};

constexpr std::array<Builtin, 14> builtins{{
    {"chatml",
     "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}"
     "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"},
    {"llama3",
     "{{ bos_token }}{% for m in messages %}{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' + "
     "m.content|trim + "
     "'<|eot_id|>' }}{% endfor %}{% if add_generation_prompt %}{{ "
     "'<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"},
    {"llama2",
     "{% if messages[0].role == 'system' %}{% set system = '<<SYS>>\\n' + messages[0].content + "
     "'\\n<</SYS>>\\n\\n' %}"
     "{% set turns = messages[1:] %}{% else %}{% set system = '' %}{% set turns = messages %}{% endif %}"
     "{% for m in turns %}{% if m.role == 'user' %}{{ bos_token + '[INST] ' + (system if loop.first else '') "
     "+ m.content|trim + "
     "' [/INST]' }}{% elif m.role == 'assistant' %}{{ ' ' + m.content|trim + ' ' + eos_token }}{% else %}"
     "{{ raise_exception('only user and assistant may take turns') }}{% endif %}{% endfor %}"},
    {"mistral",
     "{{ bos_token }}{% if messages[0].role == 'system' %}{% set system = messages[0].content + '\\n\\n' %}"
     "{% set turns = messages[1:] %}{% else %}{% set system = '' %}{% set turns = messages %}{% endif %}"
     "{% for m in turns %}{% if m.role == 'user' %}{{ '[INST] ' + (system if loop.last or loop.length == 1 "
     "else '') + m.content + "
     "'[/INST]' }}{% elif m.role == 'assistant' %}{{ ' ' + m.content + eos_token }}{% else %}"
     "{{ raise_exception('only user and assistant may take turns') }}{% endif %}{% endfor %}"},
    {"mistral-v7",
     "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}{{ '[SYSTEM_PROMPT]' + m.content + "
     "'[/SYSTEM_PROMPT]' }}"
     "{% elif m.role == 'user' %}{{ '[INST]' + m.content + '[/INST]' }}{% elif m.role == 'assistant' %}{{ "
     "m.content + eos_token }}"
     "{% else %}{{ raise_exception('unknown role ' + m.role) }}{% endif %}{% endfor %}"},
    {"gemma",
     "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system role') "
     "}}{% endif %}"
     "{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else 'user') + '\\n' + m.content|trim + "
     "'<end_of_turn>\\n' }}"
     "{% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}"},
    {"phi3",
     "{% for m in messages %}{{ '<|' + m.role + '|>\\n' + m.content + '<|end|>\\n' }}{% endfor %}"
     "{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% else %}{{ eos_token }}{% endif %}"},
    {"phi4",
     "{% for m in messages %}{{ '<|im_start|>' + m.role + '<|im_sep|>' + m.content + '<|im_end|>' }}{% "
     "endfor %}"
     "{% if add_generation_prompt %}{{ '<|im_start|>assistant<|im_sep|>' }}{% endif %}"},
    {"deepseek",
     "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}{{ m.content }}{% elif m.role == "
     "'user' %}"
     "{{ '<｜User｜>' + m.content }}{% else %}{{ '<｜Assistant｜>' + m.content + eos_token }}{% endif %}{% "
     "endfor %}"
     "{% if add_generation_prompt %}{{ '<｜Assistant｜>' }}{% endif %}"},
    {"glm4",
     "[gMASK]<sop>{% for m in messages %}{{ '<|' + m.role + '|>\\n' + m.content }}{% endfor %}"
     "{% if add_generation_prompt %}<|assistant|>{% endif %}"},
    {"command-r",
     "{{ bos_token }}{% for m in messages %}{{ '<|START_OF_TURN_TOKEN|><|' + ('CHATBOT' if m.role == "
     "'assistant' else m.role|upper) + "
     "'_TOKEN|>' + m.content|trim + '<|END_OF_TURN_TOKEN|>' }}{% endfor %}"
     "{% if add_generation_prompt %}<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>{% endif %}"},
    {"granite",
     "{% for m in messages %}{{ '<|start_of_role|>' + m.role + '<|end_of_role|>' + m.content + "
     "'<|end_of_text|>\\n' }}{% endfor %}"
     "{% if add_generation_prompt %}<|start_of_role|>assistant<|end_of_role|>{% endif %}"},
    {"harmony",
     "{% for m in messages %}{% if m.role == 'assistant' %}{{ "
     "'<|start|>assistant<|channel|>final<|message|>' + m.content + "
     "'<|end|>' }}{% else %}{{ '<|start|>' + m.role + '<|message|>' + m.content + '<|end|>' }}{% endif %}{% "
     "endfor %}"
     "{% if add_generation_prompt %}<|start|>assistant{% endif %}"},
    {"zephyr",
     "{% for m in messages %}{{ '<|' + m.role + '|>\\n' + m.content + eos_token + '\\n' }}{% endfor %}"
     "{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}"},
}};

// The first whose tokens are all in the vocabulary wins: the more telling ones stand first.
constexpr std::array<std::pair<std::string_view, std::array<std::string_view, 2>>, 12> marks{{
    {"harmony", {"<|channel|>", "<|message|>"}},
    {"phi4", {"<|im_start|>", "<|im_sep|>"}},
    {"chatml", {"<|im_start|>", "<|im_end|>"}},
    {"llama3", {"<|start_header_id|>", "<|eot_id|>"}},
    {"gemma", {"<start_of_turn>", "<end_of_turn>"}},
    {"mistral-v7", {"[SYSTEM_PROMPT]", "[INST]"}},
    {"mistral", {"[INST]", "[/INST]"}},
    {"deepseek", {"<｜User｜>", "<｜Assistant｜>"}},
    {"command-r", {"<|START_OF_TURN_TOKEN|>", "<|CHATBOT_TOKEN|>"}},
    {"granite", {"<|start_of_role|>", "<|end_of_role|>"}},
    {"glm4", {"[gMASK]", "<|observation|>"}},
    {"phi3", {"<|assistant|>", "<|end|>"}},
}};

}  // namespace

const char* builtin_template(std::string_view name) {
    for (const Builtin& builtin : builtins) {
        if (builtin.name == name) return builtin.source;
    }
    return nullptr;
}

std::string choose_builtin_template(std::string_view architecture,
                                    const std::function<bool(std::string_view)>& has_token) {
    for (const auto& [name, tokens] : marks) {
        if (has_token && has_token(tokens[0]) && has_token(tokens[1])) return std::string(name);
    }
    const auto starts = [&](std::string_view prefix) {
        return architecture.substr(0, prefix.size()) == prefix;
    };
    if (starts("gemma")) return "gemma";
    if (starts("gpt-oss") || starts("gptoss")) return "harmony";
    if (starts("deepseek")) return "deepseek";
    if (starts("command") || starts("cohere")) return "command-r";
    if (starts("granite")) return "granite";
    if (starts("glm4") || starts("chatglm")) return "glm4";
    if (starts("phi3")) return "phi3";
    if (starts("mistral")) return "mistral";
    if (starts("llama")) return "llama2";  // its later generations would have been known by their tokens
    return "chatml";
}

}  // namespace coterie::text
