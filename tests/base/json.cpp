// JSON values against texts whose values and forms are known (RFC 8259, RFC 6901).
#include "base/json.h"

#include "base/failure.h"
#include "catch.h"

using coterie::Json;

TEST_CASE("JSON texts are read and written as they are", "[json]") {
    for (const char* text :
         {"null", "true", "false", "0", "-1", "18446744073709551615", "-9223372036854775808", "1.5", "-0.25",
          "\"\"", "\"a\\n\\\"\\\\\"", "[]", "{}", "[1,[2,[3]],{\"a\":null}]",
          "{\"z\":1,\"a\":{\"y\":[true,false]},\"m\":\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x99\x82\"}"}) {
        INFO(text);
        const auto value = Json::parse(text);
        REQUIRE(value);
        CHECK(value->dump() == text);
    }
    CHECK(Json::parse("  [ 1 , 2 ]  ")->dump() == "[1,2]");
    CHECK(Json::parse("\"\\u00e9\\ud83d\\ude42\"")->text() == "\xc3\xa9\xf0\x9f\x99\x82");
    CHECK(Json::parse("1e3")->dump() == "1000.0");
    CHECK(Json::parse("1E+30")->dump() == "1e+30");
    CHECK(Json::parse("0.1")->get<double>() == 0.1);
    CHECK(Json(1.0).dump() == "1.0");
    CHECK(Json("\x01\x7f").dump() == "\"\\u0001\x7f\"");
}

TEST_CASE("what is not JSON is refused with a reason", "[json]") {
    for (const char* text : {"", " ", "{", "[1,]", "{\"a\"}", "{a:1}", "nul", "01", "1.", "\"\n\"", "\"\\x\"",
                             "[1] 2", "\"\xff\"", "\"\xed\xa0\x80\"", "'a'", "+1", "NaN", "{\"a\":1,}"}) {
        INFO(text);
        std::string why;
        CHECK_FALSE(Json::parse(text, &why));
        CHECK_FALSE(why.empty());
    }
    std::string why;
    const std::string deep(Json::deepest, '['), closed(Json::deepest, ']');
    CHECK(Json::parse(deep + closed));
    CHECK_FALSE(Json::parse("[" + deep + closed + "]", &why));
    CHECK(why == "nested more than 500 deep");
    CHECK_FALSE(Json::parse(std::string(1 << 20, '[')));
}

TEST_CASE("of entries with the same key the last counts, in the place of its own", "[json]") {
    CHECK(Json::parse(R"({"a":1,"b":2,"a":3,"c":4,"b":5})")->dump() == R"({"a":3,"c":4,"b":5})");
    std::string many = "{";
    for (int i = 0; i < 50000; ++i)
        many += "\"" + std::to_string(i % 40000) + "\":" + std::to_string(i) + ",";
    many.back() = '}';
    const auto read = Json::parse(many);
    REQUIRE(read);
    CHECK(read->size() == 40000);
    CHECK((*read)["7"].get<int>() == 40007);
}

TEST_CASE("JSON values are built, changed and looked into", "[json]") {
    Json j = {{"name", "x"}, {"list", {1, -2, 2.5, nullptr, true}}, {"empty", Json::array()}};
    CHECK(j.dump() == R"({"name":"x","list":[1,-2,2.5,null,true],"empty":[]})");
    CHECK(Json({"a", "b"}).dump() == R"(["a","b"])");  // a pair alone is a list
    CHECK(Json::array({Json::array({"a", 1})}).dump() == R"([["a",1]])");
    CHECK(Json(std::vector<std::string>{"p", "q"}).dump() == R"(["p","q"])");
    j["list"].push_back({{"k", 1}});
    j["new"] = "v";
    CHECK(j["list"][5]["k"].get<int>() == 1);
    CHECK(j.erase("name"));
    CHECK_FALSE(j.erase("name"));
    j.update({{"new", 3}, {"more", false}});
    j.erase_if([](const std::string& key) { return key == "list"; });
    CHECK(j.dump() == R"({"empty":[],"new":3,"more":false})");
    CHECK(j.dump(2) == "{\n  \"empty\": [],\n  \"new\": 3,\n  \"more\": false\n}");
    const Json& fixed = j;
    CHECK(fixed["nothing"].is_null());
    CHECK(fixed["nothing"]["at"]["all"].is_null());
    CHECK(fixed.value("more", Json(1)) == Json(false));
    CHECK(fixed.value("less", Json(1)) == Json(1));
    CHECK_THROWS_AS(fixed["new"].text(), coterie::Failure);
    CHECK_THROWS_AS(fixed["empty"][0], coterie::Failure);
    CHECK_THROWS_AS(Json("text").get<int>(), coterie::Failure);
    CHECK_THROWS_AS(Json("text").push_back(1), coterie::Failure);
    CHECK_THROWS_AS(Json("text")["key"], coterie::Failure);
    CHECK(Json("a\xff z\xed\xa0\x80").dump() == "\"a\xef\xbf\xbd z\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
}

TEST_CASE("JSON pointers lead where RFC 6901 says", "[json]") {
    const Json j = *Json::parse(R"({"foo":["bar","baz"],"":0,"a/b":1,"m~n":8,"k":{"x":[{"y":2}]}})");
    CHECK(j.at_pointer("") == &j);
    CHECK(j.at_pointer("/foo/1")->text() == "baz");
    CHECK(*j.at_pointer("/") == Json(0));
    CHECK(*j.at_pointer("/a~1b") == Json(1));
    CHECK(*j.at_pointer("/m~0n") == Json(8));
    CHECK(*j.at_pointer("/k/x/0/y") == Json(2));
    for (const char* nowhere : {"foo", "/foo/2", "/foo/-", "/foo/01x", "/k/x/y", "/foo/0/0", "/none"})
        CHECK(j.at_pointer(nowhere) == nullptr);
}

TEST_CASE("JSON values are compared by what they say", "[json]") {
    const auto of = [](const char* text) { return *Json::parse(text); };
    CHECK(of("1") == of("1.0"));
    CHECK(Json(int64_t(1)) == Json(uint64_t(1)));
    CHECK_FALSE(Json(int64_t(-1)) == Json(UINT64_MAX));
    CHECK(Json(int64_t(-1)) < Json(UINT64_MAX));
    CHECK_FALSE(Json(UINT64_MAX) < Json(int64_t(-1)));
    CHECK(of("-2") < of("-1"));
    CHECK(of("1") < of("1.5"));
    CHECK(of("{\"a\":1,\"b\":[2]}") == of("{\"b\":[2],\"a\":1}"));
    for (const char* other : {"null", "false", "\"1\"", "[1]", "{\"a\":1}", "2"})
        CHECK_FALSE(of(other) == of("1"));
    CHECK_FALSE(of("{\"a\":1}") == of("{\"b\":1}"));
    CHECK_FALSE(of("[1,2]") == of("[2,1]"));
}
