// Not a test: prints what masks cost over a vocabulary of 250000 tokens. Run with: test_grammar "[time]"
#include <cstdio>
#include <ctime>

#include "catch.h"
#include "grammar/vocabulary.h"
#include "text/json_schema.h"

using namespace coterie::text;

TEST_CASE("time of a mask over 250000 tokens", "[.time]") {
    // The thread's own time, so that a busy machine doesn't blur it.
    const auto now = [] {
        timespec time{};
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
        return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) / 1e3;
    };
    const auto begin = now();
    const auto tokens = grammar_test::vocabulary(250000);
    std::printf("vocabulary made and sorted in %.0f ms; %zu plain and %zu other nodes\n",
                (now() - begin) / 1000, tokens->plain().nodes.size(), tokens->other().nodes.size());
    struct Named {
        const char* name;
        std::shared_ptr<const Grammar> grammar;
    };
    std::string wide = R"({"type":"object","properties":{)";
    for (int i = 0; i < 40; ++i)
        wide += (i > 0 ? "," : "") + std::string("\"field_") + std::to_string(i) +
                R"(":{"type":"string","maxLength":200})";
    wide += "}}";
    const Named grammars[] = {
        {"any JSON", any_json_grammar(true)},
        {"person",
         json_schema_grammar(
             R"({"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer","minimum":0,
            "maximum":150},"mail":{"type":"string","format":"email"},"tags":{"type":"array","items":{"type":"string"}}},
            "required":["name","age","mail","tags"],"additionalProperties":false})")},
        {"40 optional strings of at most 200 characters", json_schema_grammar(wide)},
        {"pattern", json_schema_grammar(R"({"type":"string","pattern":"^[a-z ]+[0-9]{3,5}.*$"})")},
        {"free text, then JSON",
         json_schema_grammar_after("</think>", R"({"type":"object","properties":{"a":{"type":"string"}}})")},
        {"GBNF of free text", Grammar::from_gbnf(R"(root ::= ([^<] | "<" [^/])* "</end>")")},
    };
    std::vector<uint32_t> bits(tokens->mask_words());
    for (const Named& named : grammars) {
        std::mt19937 random(3);
        GrammarMatcher matcher(named.grammar, tokens);
        for (const char* round : {"first answer", "second answer"}) {
            matcher.restart();
            double total = 0, worst = 0, accepting = 0;
            int steps = 0;
            for (; steps < 300 && !matcher.finished(); ++steps) {
                const auto start = now();
                matcher.mask(bits);
                const double taken = (now() - start);
                total += taken;
                worst = std::max(worst, taken);
                uint32_t id = static_cast<uint32_t>(random() % tokens->size());
                for (size_t tries = 0; tries < tokens->size();
                     ++tries, id = (id + 1) % static_cast<uint32_t>(tokens->size()))
                    if ((bits[id / 32] >> (id % 32) & 1) != 0 && !tokens->is_end(id)) break;
                const auto middle = now();
                if (!matcher.accept(id)) break;
                accepting += (now() - middle);
            }
            std::printf(
                "%-48s %-14s %4d steps: mask %8.1f us on average, %9.1f us at worst; accept %6.2f us\n",
                named.name, round, steps, total / std::max(steps, 1), worst, accepting / std::max(steps, 1));
        }
    }
    SUCCEED();
}
