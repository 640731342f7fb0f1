#include "ranks.h"

#include "device/reference/reference_device.h"
#include "device/thread_communicator.h"
#include "model/golden.h"

namespace ranks {
using namespace coterie;

std::unique_ptr<Device> reference() {
    return std::make_unique<ReferenceDevice>();
}

std::string name_of(const Way& way) {
    std::string name = fmt::format("{} {}", mode_name(way.mode), way.ranks);
    for (const double c : way.capacity) name += fmt::format(" {}", c);
    if (way.row_cost > 0) name += fmt::format(", a row costs {}", way.row_cost);
    if (way.host_experts) name += fmt::format(", {} experts on the host", way.host_experts);
    return name;
}

std::vector<Share> shares_of(const Hyperparameters& h, const Way& way) {
    if (way.mode == Mode::single) return {whole_share(h)};
    std::vector<double> capacity = way.capacity;
    if (capacity.empty()) capacity.assign(size_t(way.ranks), 1.0);
    if (way.mode == Mode::layer)
        return cut_between_layers(h, capacity, std::vector<double>(size_t(h.layers), 1.0), 0.5, 0.5);
    std::vector<Share> shares = cut_within_layers(h, way.mode, capacity, h.router.experts - way.host_experts);
    if (way.host_experts) {
        for (Share& s : shares) s.ranks = way.ranks + 1;
        shares.push_back(host_share(h, h.router.experts - way.host_experts, way.ranks, way.ranks + 1));
    }
    return shares;
}

std::unique_ptr<Runner> make_runner(const std::shared_ptr<const Model>& model, const Way& way,
                                    DeviceMaker device, int64_t tokens) {
    std::vector<Share> shares = shares_of(model->numbers(), way);
    RunnerShape shape;
    shape.step_rows = shape.step_outputs = tokens;
    shape.page_tokens = 32;
    shape.pages = int32_t((tokens + 31) / 32);
    shape.state_slots = 1;
    shape.key_type = shape.value_type = Type::F32;
    shape.context_tokens = tokens;
    shape.row_cost = way.row_cost;
    auto communicators = make_thread_communicators(int(shares.size()), std::chrono::seconds(60));
    std::vector<RankPlace> places;
    for (size_t r = 0; r < shares.size(); ++r)
        places.push_back({device(), std::move(communicators[r]), std::move(shares[r])});
    return std::make_unique<Runner>(model, std::move(places), shape);
}

Answer answer(Runner& runner, const std::vector<int32_t>& prompt, int count) {
    const int64_t vocabulary = runner.model().numbers().vocabulary;
    golden::Sequence sequence(runner);
    Answer a;
    a.logits = sequence.append(prompt);
    for (int i = 0; i < count; ++i) {
        a.tokens.push_back(
            golden::argmax(a.logits.data() + a.logits.size() - size_t(vocabulary), vocabulary));
        const std::vector<float> next = sequence.append({a.tokens.back()});
        a.logits.insert(a.logits.end(), next.begin(), next.end());
    }
    return a;
}

double nmse(const std::vector<float>& got, const std::vector<float>& want) {
    return golden::nmse(got, std::vector<double>(want.begin(), want.end()));
}

}  // namespace ranks
