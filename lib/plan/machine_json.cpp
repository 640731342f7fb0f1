// Machines as JSON, read strictly: a key that is missing, misspelt or of the wrong kind is named.
#include <cmath>
#include <set>

#include "base/failure.h"
#include "base/json.h"
#include "plan/machine.h"

namespace coterie {
namespace {

// An object being read: every key it has must be asked for.
class Reader {
  public:
    Reader(const Json& json, std::string where, std::string path)
        : json_(json), where_(std::move(where)), path_(std::move(path)) {
        if (!json_.is_object()) wrong(path_.empty() ? "the file" : path_, "an object");
    }

    const Json* find(const char* key) {
        asked_.insert(key);
        return json_.find(key);
    }
    const Json& get(const char* key) {
        const Json* value = find(key);
        if (!value) fail(Status::invalid_argument, "'{}' is missing in {}", full(key), where_);
        return *value;
    }
    std::string text(const char* key) {
        const Json& value = get(key);
        if (!value.is_string()) wrong(full(key), "a text");
        return value.get<std::string>();
    }
    double number(const char* key, double low, double high) {
        const Json& value = get(key);
        const double x = value.is_number() ? value.get<double>() : std::nan("");
        if (!(x >= low && x <= high)) wrong(full(key), fmt::format("a number from {} to {}", low, high));
        return x;
    }
    uint64_t bytes(const char* key) {
        const Json& value = get(key);
        if (!value.is_number_unsigned() || value.get<uint64_t>() > uint64_t(1) << 50)
            wrong(full(key), "a whole number of bytes, at most 2^50");
        return value.get<uint64_t>();
    }
    Reader object(const char* key) { return Reader(get(key), where_, full(key)); }
    std::string full(const std::string& key) const { return path_.empty() ? key : path_ + "." + key; }
    [[noreturn]] void wrong(const std::string& key, const std::string& expected) const {
        fail(Status::invalid_argument, "'{}' is not {} in {}", key, expected, where_);
    }
    void finish() const {
        for (const auto& item : json_.items())
            if (!asked_.count(item.key))
                fail(Status::invalid_argument, "'{}' is not a key that is known there, in {}", full(item.key),
                     where_);
    }

  private:
    const Json& json_;
    std::string where_, path_;
    std::set<std::string> asked_;
};

constexpr double most_rate = 1e18, least_rate = 1e6;

MachineDevice read_device(Reader reader) {
    MachineDevice d;
    d.name = reader.text("name");
    const std::string kind = reader.text("kind");
    if (kind == "cuda")
        d.kind = DeviceKind::cuda;
    else if (kind == "cpu")
        d.kind = DeviceKind::cpu;
    else if (kind == "reference")
        d.kind = DeviceKind::reference;
    else
        reader.wrong(reader.full("kind"), "one of cuda, cpu, reference");
    d.total_bytes = reader.bytes("total_bytes");
    d.free_bytes = reader.bytes("free_bytes");
    if (d.free_bytes > d.total_bytes) reader.wrong(reader.full("free_bytes"), "at most total_bytes");
    d.bandwidth = reader.number("bandwidth_bytes_per_s", least_rate, most_rate);
    d.matrix_rate = reader.number("matrix_flops", least_rate, most_rate);
    d.launch_us = reader.number("launch_us", 0, 1e6);
    reader.finish();
    return d;
}

MachineLink read_link(Reader& reader) {
    MachineLink link;
    link.kind = reader.text("class");
    link.latency_us = reader.number("latency_us", 0, 1e6);
    link.bandwidth = reader.number("bandwidth_bytes_per_s", least_rate, most_rate);
    return link;
}

Json link_object(const MachineLink& link) {
    return {{"class", link.kind}, {"latency_us", link.latency_us}, {"bandwidth_bytes_per_s", link.bandwidth}};
}

}  // namespace

Machine parse_machine(std::string_view text, const std::string& where) {
    const std::optional<Json> json = Json::parse(text);
    if (!json) fail(Status::invalid_argument, "{} is not JSON", where);
    Reader root(*json, where, "");
    Machine m;
    m.name = root.text("name");
    const Json& devices = root.get("devices");
    if (!devices.is_array() || devices.empty() || devices.size() > 64)
        root.wrong("devices", "a list of 1 to 64 devices");
    for (size_t i = 0; i < devices.size(); ++i)
        m.devices.push_back(read_device(Reader(devices[i], where, fmt::format("devices[{}]", i))));
    const size_t n = m.devices.size();

    Reader host = root.object("host");
    m.host.total_bytes = host.bytes("total_bytes");
    m.host.free_bytes = host.bytes("free_bytes");
    m.host.bandwidth = host.number("bandwidth_bytes_per_s", least_rate, most_rate);
    m.host.matrix_rate = host.number("matrix_flops", least_rate, most_rate);
    Reader host_link = host.object("link");
    m.host.link = read_link(host_link);
    host_link.finish();
    host.finish();

    // The rule for all pairs, and exceptions to it.
    m.links.resize(n * n);
    std::vector<bool> known(n * n, false);
    if (root.find("link")) {
        Reader all = root.object("link");
        const MachineLink link = read_link(all);
        all.finish();
        m.links.assign(n * n, link);
        known.assign(n * n, true);
    }
    if (const Json* links = root.find("links")) {
        if (!links->is_array()) root.wrong("links", "a list");
        for (size_t i = 0; i < links->size(); ++i) {
            Reader one((*links)[i], where, fmt::format("links[{}]", i));
            const size_t a = size_t(one.number("from", 0, double(n - 1))),
                         b = size_t(one.number("to", 0, double(n - 1)));
            m.links[a * n + b] = m.links[b * n + a] = read_link(one);
            known[a * n + b] = known[b * n + a] = true;
            one.finish();
        }
    }
    for (size_t a = 0; a < n; ++a) {
        m.links[a * n + a] = MachineLink{};
        for (size_t b = 0; b < a; ++b)
            if (!known[a * n + b])
                fail(Status::invalid_argument,
                     "no link between devices {} and {} in {}; give 'link' for all pairs", b, a, where);
    }
    root.finish();
    return m;
}

std::string machine_json(const Machine& m) {
    Json json;
    json["name"] = m.name;
    json["devices"] = Json::array();
    for (const MachineDevice& d : m.devices)
        json["devices"].push_back({{"name", d.name},
                                   {"kind", kind_name(d.kind)},
                                   {"total_bytes", d.total_bytes},
                                   {"free_bytes", d.free_bytes},
                                   {"bandwidth_bytes_per_s", d.bandwidth},
                                   {"matrix_flops", d.matrix_rate},
                                   {"launch_us", d.launch_us}});
    json["links"] = Json::array();
    for (size_t a = 0; a < m.devices.size(); ++a)
        for (size_t b = a + 1; b < m.devices.size(); ++b) {
            Json link = {{"from", a}, {"to", b}};
            link.update(link_object(m.link(a, b)));
            json["links"].push_back(std::move(link));
        }
    json["host"] = {{"total_bytes", m.host.total_bytes},
                    {"free_bytes", m.host.free_bytes},
                    {"bandwidth_bytes_per_s", m.host.bandwidth},
                    {"matrix_flops", m.host.matrix_rate},
                    {"link", link_object(m.host.link)}};
    return json.dump(2);
}

}  // namespace coterie
