// Small templates, each compared with what Python's Jinja2 makes of it (tests/jinja/make_expectations.py).
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/failure.h"
#include "catch.h"
#include "text/jinja.h"

using namespace coterie;
using namespace coterie::text;

TEST_CASE("Jinja expressions and statements give what Python gives", "[jinja]") {
    std::ifstream file(TEST_DATA "/jinja/expressions.json");
    REQUIRE(file);
    const auto data = nlohmann::ordered_json::parse(file);
    const jinja::Value variables = jinja::parse_json(data["variables"].dump());
    const int64_t now = data["now"];
    REQUIRE(data["cases"].size() > 250);
    for (const auto& one : data["cases"]) {
        const std::string source = one["template"];
        CAPTURE(source);
        std::string text, message;
        Status status = Status::ok;
        try {
            text = jinja::Template(source).render(variables.as_dict(), {}, now);
        } catch (const Failure& failure) {
            status = failure.status();
            message = failure.message();
        }
        CAPTURE(message);
        if (one.contains("text")) {
            CHECK(status == Status::ok);
            CHECK(text == one["text"].get<std::string>());
        } else if (one.contains("raises")) {
            CHECK(status == Status::invalid_argument);
            CHECK(message.find(one["raises"].get<std::string>()) != std::string::npos);
        } else {
            CHECK(status == Status::bad_model);
            CHECK(message.find("line") != std::string::npos);
        }
    }
}
