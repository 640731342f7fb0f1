// The house's one direction: who may include whom (docs/layers.txt), and what library code may never call.
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <sstream>

#include "catch.h"
#include "source.h"

using namespace layers;

namespace {

using Rules = std::map<std::string, std::set<std::string>>;

Rules read_rules(std::istream& in) {
    Rules rules;
    std::string line;
    while (std::getline(in, line)) {
        if (line.empty() || line[0] == '#') continue;
        const size_t colon = line.find(':');
        REQUIRE(colon != std::string::npos);
        std::istringstream below(line.substr(colon + 1));
        std::set<std::string>& allowed = rules[line.substr(0, colon)];
        for (std::string room; below >> room;) allowed.insert(room);
    }
    return rules;
}

// lib/gguf/file.cpp -> gguf; capi/model.cpp -> capi; cuda/x/y.cu -> cuda
std::string room_of(const std::string& path) {
    const std::string inside = path.substr(0, 4) == "lib/" ? path.substr(4) : path;
    return inside.substr(0, inside.find('/'));
}

// What is wrong with an include, if anything. exists: is there such a file in the includer's own folder?
std::optional<std::string> objection(const Rules& rules, const std::string& path, const Include& include,
                                     bool beside) {
    const std::string room = room_of(path);
    if (include.target.find("..") != std::string::npos) return "climbs with ..";
    const size_t slash = include.target.find('/');
    const std::string first = include.target.substr(0, slash);
    if (room == "examples") {
        if (first == "coterie" || !include.quoted || beside) {
            if (rules.count(first) && slash != std::string::npos) return "reaches into the library";
            return std::nullopt;
        }
        return rules.count(first) ? "reaches into the library"
                                  : "is not a header of coterie/, the standard or another library";
    }
    if (!rules.count(room)) return "lies in a room that docs/layers.txt does not name";
    if (!include.quoted) {
        if (slash != std::string::npos && rules.count(first) && first != "cuda")
            return "names a room in angle brackets";
        return std::nullopt;
    }
    if (beside && slash == std::string::npos) return std::nullopt;
    if (first == "coterie" && room == "capi") return std::nullopt;
    if (!rules.count(first)) return "is no room of the house (write \"room/file.h\")";
    if (first != room && !rules.at(room).count(first))
        return "is not allowed: " + room + " may not include " + first;
    return std::nullopt;
}

std::vector<std::string> objections(const Rules& rules) {
    std::vector<std::string> found;
    for (const char* folder : {"lib", "capi", "cuda", "examples"})
        for (const Source& source : sources_below(SOURCE_ROOT, folder))
            for (const Include& include : source.includes) {
                const auto beside = std::filesystem::path(SOURCE_ROOT) / source.path;
                // Programs may share headers that lie in examples/ itself.
                const bool is_beside = std::filesystem::exists(beside.parent_path() / include.target) ||
                                       (room_of(source.path) == "examples" &&
                                        std::filesystem::exists(std::filesystem::path(SOURCE_ROOT) /
                                                                "examples" / include.target));
                if (const auto why = objection(rules, source.path, include, is_beside))
                    found.push_back(source.path + ":" + std::to_string(include.line) + ": " + include.target +
                                    " " + *why);
            }
    return found;
}

// What a library in somebody else's process may not do. Words are matched outside comments and texts.
const std::vector<std::pair<std::string, std::string>>& forbidden_calls() {
    static const std::vector<std::pair<std::string, std::string>> calls = {
        {R"(\b(std::)?(cout|cerr|clog|wcout|wcerr)\b)", "prints"},
        {R"(\b(stdout|stderr)\b)", "prints"},
        {R"(\b(printf|vprintf|puts|putchar|perror|putc_unlocked)\s*\()", "prints"},
        {R"(\bfmt::print(ln)?\s*\()", "prints"},
        {R"(\b(STDOUT_FILENO|STDERR_FILENO)\b)", "prints"},
        // As a statement or qualified: a device's own abort() may be declared and called.
        {R"(((^|[;{})]|:\s|\belse\b)\s*|\bstd::|(^|[^\w>])::)(abort|exit|_exit|_Exit|quick_exit|terminate|raise)\s*\()",
         "ends the process"},
        {R"(\b__builtin_trap\s*\()", "ends the process"},
        {R"((^|[^\w])assert\s*\()", "asserts"},
        {R"(\b__assert_fail\b)", "ends the process"},
    };
    return calls;
}

std::vector<std::string> forbidden_in(const Source& source) {
    std::vector<std::string> found;
    static const std::vector<std::pair<std::regex, std::string>> calls = [] {
        std::vector<std::pair<std::regex, std::string>> compiled;
        for (const auto& [pattern, what] : forbidden_calls())
            compiled.emplace_back(std::regex(pattern), what);
        return compiled;
    }();
    std::istringstream lines(source.code);
    std::string line;
    for (int number = 1; std::getline(lines, line); ++number)
        for (const auto& [pattern, what] : calls)
            if (std::smatch match; std::regex_search(line, match, pattern))
                found.push_back(source.path + ":" + std::to_string(number) + ": " + what + " (" +
                                match.str() + ")");
    return found;
}

std::string listed(const std::vector<std::string>& lines) {
    std::string all;
    for (const std::string& line : lines) all += line + "\n";
    return all;
}

}  // namespace

TEST_CASE("nobody includes from above") {
    std::ifstream in(SOURCE_ROOT "/docs/layers.txt");
    REQUIRE(in);
    const Rules rules = read_rules(in);
    REQUIRE(rules.size() >= 12);
    for (const auto& [room, below] : rules)
        for (const std::string& other : below) {
            INFO(room << " names " << other);
            REQUIRE(rules.count(other) == 1);
            CHECK(rules.at(other).count(room) == 0);  // no circles of two
        }
    REQUIRE(sources_below(SOURCE_ROOT, "lib").size() > 10);
    const std::vector<std::string> found = objections(rules);
    INFO(listed(found));
    CHECK(found.empty());
}

TEST_CASE("every room of lib is in the rules") {
    std::ifstream in(SOURCE_ROOT "/docs/layers.txt");
    const Rules rules = read_rules(in);
    for (const auto& entry : std::filesystem::directory_iterator(SOURCE_ROOT "/lib")) {
        INFO(entry.path().string());
        CHECK(rules.count(entry.path().filename().string()) == 1);
    }
}

TEST_CASE("the library never prints, asserts or ends the process") {
    std::vector<std::string> found;
    for (const char* folder : {"lib", "capi", "cuda"})
        for (const Source& source : sources_below(SOURCE_ROOT, folder)) {
            const std::vector<std::string> here = forbidden_in(source);
            found.insert(found.end(), here.begin(), here.end());
        }
    INFO(listed(found));
    CHECK(found.empty());
}

TEST_CASE("the check of includes objects to what it should") {
    std::istringstream text(
        "# comment\nbase:\ngguf: base\nmodel: base gguf\ncapi: base gguf model\ncuda: base\n");
    const Rules rules = read_rules(text);
    const auto refused = [&](const char* path, const char* target, bool quoted = true, bool beside = false) {
        return objection(rules, path, {target, quoted, 1}, beside).has_value();
    };
    CHECK_FALSE(refused("lib/gguf/file.cpp", "base/failure.h"));
    CHECK_FALSE(refused("lib/gguf/file.cpp", "gguf/file.h"));
    CHECK_FALSE(refused("lib/gguf/file.cpp", "vector", false));
    CHECK_FALSE(refused("lib/gguf/file.cpp", "fmt/format.h", false));
    CHECK_FALSE(refused("lib/gguf/file.cpp", "sys/mman.h", false));
    CHECK_FALSE(refused("capi/model.cpp", "coterie/coterie.h"));
    CHECK_FALSE(refused("cuda/kernel.cu", "cuda/std/array", false));
    CHECK_FALSE(refused("examples/chat/main.cpp", "coterie/coterie.hpp"));
    CHECK_FALSE(refused("examples/chat/main.cpp", "coterie/coterie.hpp", false));
    CHECK_FALSE(refused("examples/chat/main.cpp", "commands.h", true, true));
    CHECK_FALSE(refused("examples/chat/main.cpp", "CLI/CLI.hpp", false));
    CHECK(refused("lib/gguf/file.cpp", "model/model.h"));
    CHECK(refused("lib/base/failure.cpp", "gguf/file.h"));
    CHECK(refused("lib/gguf/file.cpp", "model/model.h", false));
    CHECK(refused("lib/gguf/file.cpp", "../model/model.h"));
    CHECK(refused("lib/gguf/file.cpp", "cuda/device.h"));
    CHECK(refused("lib/gguf/file.cpp", "coterie/coterie.h"));
    CHECK(refused("lib/gguf/file.cpp", "lib/base/failure.h"));
    CHECK(refused("lib/stray/file.cpp", "base/failure.h"));
    CHECK(refused("cuda/kernel.cu", "gguf/file.h"));
    CHECK(refused("examples/chat/main.cpp", "gguf/file.h"));
    CHECK(refused("examples/chat/main.cpp", "gguf/file.h", false));
    CHECK(refused("examples/chat/main.cpp", "../../lib/gguf/file.h"));
    const std::vector<Include> found =
        includes_of("#pragma once\n #  include <a/b.h>\n#include \"c.h\" // x\n");
    REQUIRE(found.size() == 2);
    CHECK((found[0].target == "a/b.h" && !found[0].quoted && found[0].line == 2));
    CHECK((found[1].target == "c.h" && found[1].quoted && found[1].line == 3));
}

TEST_CASE("the check of calls finds them in code and only there") {
    const auto caught = [](const std::string& code) { return !forbidden_in({"x", strip(code), {}}).empty(); };
    CHECK(caught("if (x) abort();"));
    CHECK(caught("else exit(1);"));
    CHECK(caught("case 1: abort();"));
    for (const char* bad :
         {"std::cerr << 1;", "printf(\"x\");", "std::abort();", "  exit(1);", "std::exit(1);", "::exit(2);",
          "assert(x);", "fprintf(stderr, \"x\");", "fmt::print(\"x\");", "_exit(3);", "std::terminate();",
          "x = '\"'; puts(s);", "R\"(quiet)\"; abort();"}) {
        INFO(bad);
        CHECK(caught(bad));
    }
    for (const char* good :
         {"static_assert(sizeof(x) == 4);", "// abort()", "/* std::cout\n exit(1) */ x();",
          "fail(\"abort() printf(\");", "communicator->abort();", "virtual void abort() = 0;",
          "void Ring::abort() {", "snprintf(b, 2, \"x\");", "on_exit_code(1);", "fmt::format(\"x\");",
          "R\"q(exit(1);)q\";", "auto n = 1'000'000;"}) {
        INFO(good);
        CHECK_FALSE(caught(good));
    }
}
