#include "golden.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/failure.h"

namespace golden {
using namespace coterie;

static std::vector<double> read_numbers(const std::string& path, bool doubles) {
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    if (!file) return {};
    const size_t bytes = size_t(file.tellg());
    file.seekg(0);
    std::vector<double> result(bytes / (doubles ? 8 : 4));
    if (doubles) {
        file.read(reinterpret_cast<char*>(result.data()), long(bytes));
    } else {
        std::vector<float> floats(result.size());
        file.read(reinterpret_cast<char*>(floats.data()), long(bytes));
        std::copy(floats.begin(), floats.end(), result.begin());
    }
    return result;
}

Case load(const std::string& name) {
    const std::string base = std::string(TEST_DATA "/golden/") + name;
    std::ifstream file(base + ".json");
    if (!file) fail(Status::not_found, "no golden case {}", base);
    const nlohmann::json j = nlohmann::json::parse(file);
    Case c;
    c.name = name;
    c.path = base + ".gguf";
    c.prompt = j.at("prompt").get<std::vector<int32_t>>();
    c.positions = j.at("positions").get<std::vector<int32_t>>();
    c.long_prompt = j.at("long_prompt").get<std::vector<int32_t>>();
    c.long_positions = j.at("long_positions").get<std::vector<int32_t>>();
    c.greedy = j.at("greedy").get<std::vector<int32_t>>();
    c.greedy_margin = j.at("greedy_margin").get<std::vector<double>>();
    const bool doubles = j.value("dtype", "float64") == "float64";
    c.logits = read_numbers(base + ".logits.bin", doubles);
    c.long_logits = read_numbers(base + ".long.logits.bin", doubles);
    c.truth = read_numbers(base + ".truth.logits.bin", doubles);
    c.vocabulary = int64_t(c.logits.size() / c.positions.size());
    return c;
}

std::vector<std::string> names(const std::string& folder) {
    std::vector<std::string> result;
    const std::string prefix = folder.empty() ? "" : folder + "/";
    for (const auto& entry : std::filesystem::directory_iterator(std::string(TEST_DATA "/golden/") + folder))
        if (entry.path().extension() == ".gguf") result.push_back(prefix + entry.path().stem().string());
    std::sort(result.begin(), result.end());
    return result;
}

std::unique_ptr<Runner> make_runner(const std::string& path, DeviceMaker device, Type cache, int64_t tokens) {
    auto model = Model::open(path);
    RunnerShape shape;
    shape.step_rows = tokens;
    shape.step_outputs = tokens;
    shape.page_tokens = 32;
    shape.pages = 2 * int32_t((tokens + 31) / 32);
    shape.state_slots = 3;
    shape.key_type = shape.value_type = cache;
    shape.context_tokens = tokens;
    std::vector<RankPlace> places;
    places.push_back({device(), std::make_unique<SoloCommunicator>(), whole_share(model->numbers())});
    return std::make_unique<Runner>(model, std::move(places), shape);
}

Sequence::Sequence(Runner& runner, int32_t index, int32_t sequences)
    : runner_(runner), index_(index), sequences_(sequences) {
    if (runner.model().numbers().has_states()) runner.clear_state(index);
}

std::vector<int32_t> Sequence::pages() const {
    // Every sequences_-th page, last first: pages are neither in order nor adjacent.
    const int32_t each = runner_.shape().pages / sequences_;
    std::vector<int32_t> result;
    for (int32_t i = 0; i < each; ++i) result.push_back((each - 1 - i) * sequences_ + index_);
    return result;
}

std::vector<float> Sequence::append(const std::vector<int32_t>& tokens, int64_t chunk) {
    const int64_t vocabulary = runner_.model().numbers().vocabulary;
    std::vector<float> logits(tokens.size() * size_t(vocabulary));
    for (size_t at = 0; at < tokens.size();) {
        const int64_t n = std::min<int64_t>(chunk, int64_t(tokens.size() - at));
        Step step;
        step.pages = pages();
        step.pages_per_sequence = int32_t(step.pages.size());
        step.page_tokens = runner_.shape().page_tokens;
        step.spans.push_back({0, index_, 0, int32_t(n), position_});
        for (int64_t i = 0; i < n; ++i) {
            step.tokens.push_back(tokens[at + size_t(i)]);
            step.positions.push_back(position_ + int32_t(i));
            step.span_of.push_back(0);
            step.outputs.push_back(int32_t(i));
        }
        runner_.run(step, {logits.data() + at * size_t(vocabulary), size_t(n * vocabulary)});
        at += size_t(n);
        position_ += int32_t(n);
    }
    return logits;
}

double nmse(const std::vector<float>& got, const std::vector<double>& want) {
    if (got.size() != want.size() || want.empty()) return 1e30;
    double error = 0, size = 0;
    for (size_t i = 0; i < want.size(); ++i) {
        error += (double(got[i]) - want[i]) * (double(got[i]) - want[i]);
        size += want[i] * want[i];
    }
    return error / size;
}

std::vector<float> rows_at(const std::vector<float>& logits, const std::vector<int32_t>& positions,
                           int64_t vocabulary) {
    std::vector<float> result;
    for (const int32_t p : positions)
        result.insert(result.end(), logits.begin() + p * vocabulary, logits.begin() + (p + 1) * vocabulary);
    return result;
}

int32_t argmax(const float* row, int64_t n) {
    return int32_t(std::max_element(row, row + n) - row);
}

}  // namespace golden
