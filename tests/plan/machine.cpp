// Machine descriptions: built in, as JSON and back, and mistakes in JSON named by key.
#include "plan/machine.h"

#include <nlohmann/json.hpp>

#include "base/failure.h"
#include "catch.h"

using namespace coterie;
using nlohmann::json;

namespace {

std::string message(const json& machine) {
    try {
        parse_machine(machine.dump(), "x.json");
    } catch (const Failure& failure) {
        CHECK(failure.status() == Status::invalid_argument);
        return failure.message();
    }
    return "";
}

}  // namespace

TEST_CASE("built-in machines survive JSON") {
    CHECK(machine_names().size() == 6);
    for (const std::string& name : machine_names()) {
        const Machine m = find_machine(name), again = parse_machine(machine_json(m), "text");
        CHECK(machine_json(again) == machine_json(m));
        CHECK(again.devices.size() == m.devices.size());
        CHECK(again.devices.back().free_bytes == m.devices.back().free_bytes);
    }
    CHECK(find_machine("4xv100-32g").link(0, 3).kind == "nvlink");
    CHECK(find_machine("2-socket-cpu").devices[1].kind == DeviceKind::cpu);
    CHECK_THROWS_AS(find_machine("/nowhere"), Failure);
}

TEST_CASE("mistakes in a machine's JSON are named by key") {
    const json good = json::parse(machine_json(find_machine("2x3090")));
    CHECK(message(good) == "");
    json j = good;
    j["devices"][1].erase("launch_us");
    CHECK(message(j) == "'devices[1].launch_us' is missing in x.json");
    j = good;
    j["devices"][0]["bandwith"] = 3;
    CHECK(message(j) == "'devices[0].bandwith' is not a key that is known there, in x.json");
    j = good;
    j["devices"][0]["free_bytes"] = -5;
    CHECK(message(j).find("'devices[0].free_bytes'") == 0);
    j = good;
    j["host"]["link"]["latency_us"] = "fast";
    CHECK(message(j).find("'host.link.latency_us' is not a number") == 0);
    j = good;
    j["devices"][0]["kind"] = "tpu";
    CHECK(message(j).find("'devices[0].kind' is not one of") == 0);
    j = good;
    j["links"] = json::array();
    CHECK(message(j).find("no link between devices 0 and 1") == 0);
    j = good;
    j["devices"] = 7;
    CHECK(message(j).find("'devices' is not a list") == 0);
    CHECK_THROWS_AS(parse_machine("{", "x.json"), Failure);
    CHECK_THROWS_AS(parse_machine("[]", "x.json"), Failure);
}

TEST_CASE("this machine as ranks") {
    const Machine m = live_machine(4);
    CHECK(m.devices.size() == 4);
    CHECK(m.devices[3].name == "cpu:3");
    CHECK(m.devices[0].free_bytes > 0);
    CHECK(m.devices[0].free_bytes <= m.host.free_bytes / 4);
    CHECK(live_machine(1, DeviceKind::reference).devices[0].name == "reference");
    CHECK_THROWS_AS(live_machine(0), Failure);
}
