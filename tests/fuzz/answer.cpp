// Any bytes as an answer, under any family: cut in pieces or not it must mean the same, and calls must carry
// JSON.
#include "../answer/answer.h"

#include <nlohmann/json.hpp>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace answer_test;
    if (size < 3) return 0;
    const auto& families = answer_families();
    const AnswerFormat format = answer_format(families[data[0] % families.size()]);
    AnswerOptions options;
    options.thinking_open = (data[1] & 1) != 0;
    options.tools = (data[1] & 2) != 0;
    options.whole_calls = (data[1] & 4) != 0;
    if ((data[1] & 8) != 0)
        options.tools_json = R"([{"name":"f","parameters":{"properties":{"p":{"type":"string"}}}}])";
    const std::string raw(reinterpret_cast<const char*>(data) + 3, size - 3);
    const Answer whole = parse(format, options, {raw});
    std::mt19937 random(data[2]);
    if (!(parse(format, options, cut_at_random(raw, random, 0.3)) == whole)) __builtin_trap();
    if (!(parse(format, options, bytes_of(raw)) == whole)) __builtin_trap();
    for (const Call& call : whole.calls)
        if (!nlohmann::json::parse(call.arguments, nullptr, false).is_object()) __builtin_trap();
    return 0;
}
