// Stop strings against a search of the whole text, at every cut of it.
#include "sample/stop_matcher.h"

#include "catch.h"
#include "sample/sampler.h"

using namespace coterie;

namespace {

// The definition: the first place where some stop string ends; of those that end there, the longest.
std::pair<std::string, std::string> search(const std::string& text, const std::vector<std::string>& stops) {
    for (size_t end = 1; end <= text.size(); ++end) {
        std::string best;
        for (const std::string& stop : stops)
            if (stop.size() > best.size() && stop.size() <= end &&
                text.compare(end - stop.size(), stop.size(), stop) == 0)
                best = stop;
        if (!best.empty()) return {text.substr(0, end - best.size()), best};
    }
    return {text, ""};
}

// The longest end of text that begins a stop string.
size_t must_hold(const std::string& text, const std::vector<std::string>& stops) {
    for (size_t n = text.size(); n > 0; --n)
        for (const std::string& stop : stops)
            if (n < stop.size() && text.compare(text.size() - n, n, stop, 0, n) == 0) return n;
    return 0;
}

}  // namespace

TEST_CASE("what comes out does not depend on how the text is cut, and no more is held than must be") {
    const std::vector<std::vector<std::string>> all_stops = {
        {"\n\n"},
        {"ab", "abc"},
        {"abc", "ab"},
        {"bcd", "abcde"},
        {"aab"},
        {"abab", "babb"},
        {"", "\n"},
        {},
        {"\xe4\xbd\xa0\xe5\xa5\xbd"},
    };
    Random random(8);
    for (const auto& stops : all_stops) {
        for (int round = 0; round < 60; ++round) {
            std::string text;
            const char* const letters = round % 2 ? "ab\nc" : "abcde";
            for (int i = 0; i < 14; ++i) text += letters[size_t(random.uniform() * (round % 2 ? 4 : 5))];
            if (round == 7) text = "x\xe4\xbd\xa0\xe4\xbd\xa0\xe5\xa5\xbd!";
            const auto [before, stop] = search(text, stops);
            for (size_t i = 0; i <= text.size(); ++i) {
                for (size_t j = i; j <= text.size(); ++j) {
                    StopMatcher matcher(stops);
                    std::string out;
                    size_t fed = 0;
                    for (const std::string& part :
                         {text.substr(0, i), text.substr(i, j - i), text.substr(j)}) {
                        out += matcher.push(part);
                        fed += part.size();
                        if (!matcher.matched())
                            REQUIRE(fed - out.size() == must_hold(text.substr(0, fed), stops));
                    }
                    out += matcher.flush();
                    REQUIRE(out == before);
                    REQUIRE(matcher.matched() == !stop.empty());
                    if (matcher.matched()) REQUIRE(matcher.match() == stop);
                }
            }
        }
    }
}

TEST_CASE("after a match nothing more comes out") {
    StopMatcher matcher({"END"});
    CHECK(matcher.push("text EN") == "text ");
    CHECK(matcher.push("D more") == "");
    CHECK(matcher.matched());
    CHECK(matcher.match() == "END");
    CHECK(matcher.push("and more") == "");
    CHECK(matcher.flush() == "");
}

TEST_CASE("a long stop string over a long text takes linear time") {
    // 1 MB of its beginning, repeated: quadratic work would not come to an end here.
    StopMatcher matcher({std::string(500000, 'a') + "b"});
    std::string out;
    for (int i = 0; i < 1000; ++i) out += matcher.push(std::string(1000, 'a'));
    CHECK(out.size() == 500000);
    CHECK(matcher.push("b") == "");
    CHECK(matcher.matched());
}
