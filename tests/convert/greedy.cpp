#include "greedy.h"

#include <algorithm>
#include <memory>

#include "device/reference/reference_device.h"
#include "execute/runner.h"

using namespace coterie;

Greedy run_greedy(const std::string& path, const std::vector<int32_t>& prompt, int n_tokens) {
    const auto model = Model::open(path);
    RunnerShape shape;
    shape.step_rows = shape.step_outputs = shape.context_tokens = 64;
    shape.page_tokens = 32;
    shape.pages = 2;
    shape.state_slots = 1;
    shape.key_type = shape.value_type = Type::F32;
    std::vector<RankPlace> places;
    places.push_back({std::make_unique<ReferenceDevice>(), std::make_unique<SoloCommunicator>(),
                      whole_share(model->numbers())});
    Runner runner(model, std::move(places), shape);
    if (model->numbers().has_states()) runner.clear_state(0);

    Greedy result;
    const size_t vocabulary = size_t(model->numbers().vocabulary);
    std::vector<int32_t> next = prompt;
    int32_t position = 0;
    while (int(result.tokens.size()) < n_tokens) {
        Step step;
        step.pages = {1, 0};
        step.pages_per_sequence = 2;
        step.page_tokens = shape.page_tokens;
        step.spans.push_back({0, 0, 0, int32_t(next.size()), position});
        for (const int32_t token : next) {
            step.tokens.push_back(token);
            step.positions.push_back(position++);
            step.span_of.push_back(0);
        }
        step.outputs.push_back(int32_t(next.size()) - 1);
        std::vector<float> logits(vocabulary);
        runner.run(step, logits);
        if (result.logits.empty()) result.logits = logits;
        next = {int32_t(std::max_element(logits.begin(), logits.end()) - logits.begin())};
        result.tokens.push_back(next[0]);
    }
    return result;
}
