#include "plan/placing.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/failure.h"
#include "plan/cost.h"
#include "plan/estimate.h"
#include "plan/shard_bytes.h"

namespace coterie {
namespace {

// Left free on a card for the driver's work spaces, which no allocation shows.
constexpr uint64_t cuda_headroom_bytes = uint64_t(256) << 20;
constexpr int64_t usual_step_rows = 512;

bool on_host(const TensorEntry& entry) {
    return entry.part == Part::ngram_table;
}

}  // namespace

StepShape step_shape(const Hyperparameters& h, const PlanRequest& request, int64_t context_tokens) {
    StepShape s{};
    s.context_tokens = context_tokens;
    s.parallel = std::max(request.parallel, 1);
    const int64_t pages = (context_tokens + plan_page_tokens - 1) / plan_page_tokens;
    s.pages = int32_t(pages * s.parallel);
    s.step_rows = request.step_rows > 0 ? request.step_rows : usual_step_rows;
    s.step_rows = std::max<int64_t>(std::min(s.step_rows, pages * plan_page_tokens), s.parallel);
    int32_t checkpoints = request.checkpoints;
    if (checkpoints < 0) checkpoints = h.has_states() && request.reuse_prefixes ? 4 * s.parallel : 0;
    // Guesses need the state from before them, and logits of each.
    const int32_t drafts = std::max(request.drafts, 0), snapshots = drafts > 0 ? s.parallel : 0;
    s.state_slots = h.has_states() ? s.parallel + checkpoints + snapshots : 0;
    s.step_outputs = int64_t(s.parallel) * (1 + drafts);
    s.step_rows = std::max(s.step_rows, s.step_outputs);
    s.key_type = request.key_type;
    s.value_type = request.value_type;
    return s;
}

Placing::Placing(const Model& model, const Machine& machine, const PlanRequest& request, Mode mode,
                 int32_t host_experts)
    : model_(model), machine_(machine), request_(request), mode_(mode), host_experts_(host_experts) {
    const Hyperparameters& h = model.numbers();
    for (const TensorEntry& entry : model.table().entries())
        if (entry.found >= 0 && on_host(entry))
            for (const gguf::Tensor* tensor : entry.tensors) table_bytes_ += tensor->bytes;
    std::vector<double> weights;
    for (size_t i = 0; i < machine.devices.size(); ++i) {
        const MachineDevice& d = machine.devices[i];
        uint64_t capacity = d.free_bytes;
        if (d.kind == DeviceKind::cuda) capacity -= std::min(capacity, cuda_headroom_bytes);
        if (i < request.limits.size() && request.limits[i] > 0)
            capacity = std::min(capacity, request.limits[i]);
        capacity_.push_back(capacity);
        weights.push_back(double(capacity));
    }
    if (host_experts_ > 0) {
        uint64_t taken = table_bytes_;  // ranks on CPUs have the host's memory
        for (size_t i = 0; i < machine.devices.size(); ++i)
            if (machine.devices[i].kind != DeviceKind::cuda) taken += capacity_[i];
        capacity_.push_back(machine.host.free_bytes - std::min(machine.host.free_bytes, taken));
    }
    if (mode == Mode::expert && !h.has_experts()) {
        obstacle_ = "expert mode needs a mixture of experts, and this model is dense";
        return;
    }
    try {
        if (mode == Mode::layer) {
            const Share whole = whole_share(h);
            layer_weights_.assign(size_t(h.layers), 0.0);
            for (const TensorEntry& entry : model.table().entries()) {
                if (entry.found < 0 || on_host(entry)) continue;
                const double bytes =
                    double(shard_bytes(entry, shard_shape(entry, h, whole), machine.devices[0].kind));
                if (entry.layer >= 0)
                    layer_weights_[size_t(entry.layer)] += bytes;
                else
                    (entry.part == Part::token_embedding ? first_weights_ : last_weights_) += bytes;
            }
            return;
        }
        if (mode == Mode::single)
            shares_ = {whole_share(h)};
        else
            shares_ = cut_within_layers(h, mode, weights, h.router.experts - host_experts_);
        if (host_experts_ > 0) {
            for (Share& share : shares_) share.ranks = int32_t(shares_.size()) + 1;
            shares_.push_back(host_share(h, h.router.experts - host_experts_, int32_t(shares_.size()),
                                         int32_t(shares_.size()) + 1));
        }
        expert_bytes_.assign(shares_.size(), 0.0);
        for (size_t r = 0; r < shares_.size(); ++r) {
            uint64_t sum = 0;
            for (const TensorEntry& entry : model.table().entries()) {
                if (!holds(entry, shares_[r]) || on_host(entry)) continue;
                const uint64_t bytes =
                    shard_bytes(entry, shard_shape(entry, h, shares_[r]), device_of(r).kind);
                sum += bytes;
                if (entry.kind == Kind::experts)
                    expert_bytes_[r] += double(bytes) / std::max(1, h.router.experts - host_experts_);
            }
            weights_.push_back(sum);
        }
    } catch (const Failure& failure) {
        if (failure.status() != Status::unsupported) throw;
        obstacle_ = fmt::format("{} mode: {}", mode_name(mode), failure.message());
    }
}

MachineDevice Placing::device_of(size_t rank) const {
    if (rank < machine_.devices.size()) return machine_.devices[rank];
    return {"host",
            DeviceKind::cpu,
            machine_.host.total_bytes,
            machine_.host.free_bytes,
            machine_.host.bandwidth,
            machine_.host.matrix_rate,
            5.0};
}

// Layers and their caches, so that the fullest rank is least full.
void Placing::cut(int64_t context_tokens, std::vector<Share>& shares) const {
    const Hyperparameters& h = model_.numbers();
    const StepShape s = step_shape(h, request_, context_tokens);
    std::vector<double> bytes = layer_weights_, capacity(capacity_.begin(), capacity_.end());
    Share one = whole_share(h);
    for (int32_t i = 0; i < h.layers; ++i) {
        one.layers = {i, i + 1};
        CacheShape cache = cache_shape(h, one);
        cache.key_type = s.key_type;
        cache.value_type = s.value_type;
        cache.page_tokens = plan_page_tokens;
        bytes[size_t(i)] +=
            double(cache.page_bytes()) * s.pages + double(state_shape(h, one).slot_bytes()) * s.state_slots;
    }
    shares = cut_between_layers(h, capacity, bytes, first_weights_, last_weights_);
}

std::vector<Work> Placing::work(const RankPlan& rank, const Plan& plan,
                                const std::vector<DryStep>& steps) const {
    std::vector<Work> result;
    if (!model_.architecture().runs) {
        for (const DryStep& step : steps) result.push_back(table_work(model_, rank.share, step));
        return result;
    }
    CacheShape cache = cache_shape(model_.numbers(), rank.share);
    cache.key_type = plan.key_type;
    cache.value_type = plan.value_type;
    cache.page_tokens = plan_page_tokens;
    cache.pages = plan.pages;
    DryRun run(model_, rank.share, cache);
    for (const DryStep& step : steps) result.push_back(run.step(step));
    return result;
}

// Depends on the layers held and the rows of a step, not on the context: searches ask again and again.
uint64_t Placing::scratch_of(size_t index, const RankPlan& rank, const Plan& plan) const {
    const std::array<int64_t, 4> key{int64_t(index), rank.share.layers.begin, rank.share.layers.end,
                                     plan.step_rows};
    const auto known = scratch_.find(key);
    if (known != scratch_.end()) return known->second;
    return scratch_[key] =
               work(rank, plan, {{plan.step_rows, plan.step_outputs, 0, 1}}).front().scratch_bytes;
}

Plan Placing::plan(int64_t context_tokens) const {
    const Hyperparameters& h = model_.numbers();
    const StepShape s = step_shape(h, request_, context_tokens);
    Plan plan;
    plan.mode = mode_;
    plan.context_tokens = s.context_tokens;
    plan.step_rows = s.step_rows;
    plan.step_outputs = s.step_outputs;
    plan.parallel = s.parallel;
    plan.pages = s.pages;
    plan.state_slots = s.state_slots;
    plan.key_type = s.key_type;
    plan.value_type = s.value_type;
    plan.host_experts = host_experts_;
    plan.host_bytes = table_bytes_;

    std::vector<Share> shares = shares_;
    if (mode_ == Mode::layer) cut(context_tokens, shares);
    double fullest = 0, sum = 0;
    for (size_t r = 0; r < shares.size(); ++r) {
        RankPlan rank;
        const MachineDevice device = device_of(r);
        rank.device = device.name;
        rank.kind = device.kind;
        rank.capacity_bytes = capacity_[r];
        rank.share = std::move(shares[r]);
        if (mode_ == Mode::layer) {
            double bytes =
                (rank.share.has_embedding ? first_weights_ : 0) + (rank.share.has_head ? last_weights_ : 0);
            for (int64_t i = rank.share.layers.begin; i < rank.share.layers.end; ++i)
                bytes += layer_weights_[size_t(i)];
            rank.weights_bytes = uint64_t(bytes);
        } else {
            rank.weights_bytes = weights_[r];
        }
        CacheShape cache = cache_shape(h, rank.share);
        cache.key_type = s.key_type;
        cache.value_type = s.value_type;
        cache.page_tokens = plan_page_tokens;
        rank.kv_bytes =
            (cache.page_bytes() + extra_page_bytes(h, rank.share, plan_page_tokens)) * uint64_t(s.pages);
        rank.state_bytes = (state_shape(h, rank.share).slot_bytes() + extra_slot_bytes(h, rank.share)) *
                           uint64_t(s.state_slots);
        const uint64_t logits = uint64_t(s.step_outputs) * uint64_t(h.vocabulary) * sizeof(float);
        rank.scratch_bytes = scratch_of(r, rank, plan) + logits;
        // Staging of the largest meeting, twice: one may be read while the next is written.
        const uint64_t rows = uint64_t(s.step_rows) * uint64_t(h.embedding) * sizeof(float);
        const int64_t vocabulary = rank.share.vocabulary.end - rank.share.vocabulary.begin;
        if (rank.share.sums())
            rank.comm_bytes =
                2 * std::max(rows, uint64_t(s.step_outputs) * uint64_t(vocabulary) * sizeof(float));
        else if (rank.share.ranks > 1 && !rank.share.has_head)
            rank.comm_bytes = rows * uint64_t(std::max(h.streams, 1));
        if (r < machine_.devices.size()) {
            const double full =
                double(rank.total_bytes()) / double(std::max<uint64_t>(rank.capacity_bytes, 1));
            fullest = std::max(fullest, full);
            sum += full;
        } else {
            plan.host_bytes += rank.weights_bytes;
        }
        plan.ranks.push_back(std::move(rank));
    }
    plan.imbalance = sum > 0 ? fullest * double(machine_.devices.size()) / sum : 1.0;
    plan.fits = excess(plan) <= 0;
    return plan;
}

int64_t Placing::excess(const Plan& plan) {
    int64_t most = INT64_MIN;
    for (const RankPlan& rank : plan.ranks)
        most = std::max(most, int64_t(rank.total_bytes()) - int64_t(rank.capacity_bytes));
    return most;
}

int64_t Placing::largest_context(int64_t most) const {
    const int64_t most_pages = (most + plan_page_tokens - 1) / plan_page_tokens;
    const auto tokens = [&](int64_t pages) { return std::min(most, pages * plan_page_tokens); };
    if (mode_ == Mode::layer) {  // the cut depends on the context
        int64_t fits = 0, beyond = most_pages + 1;
        while (beyond - fits > 1) {
            // The end first: most often all of it fits.
            const int64_t middle = beyond > most_pages ? most_pages : fits + (beyond - fits) / 2;
            if (excess(plan(tokens(middle))) <= 0)
                fits = middle;
            else
                beyond = middle;
            if (fits == most_pages) break;
        }
        return tokens(fits);
    }
    const Plan whole = plan(tokens(most_pages));
    int64_t pages = most_pages;
    for (const RankPlan& rank : whole.ranks) {
        const uint64_t rest = rank.total_bytes() - rank.kv_bytes;
        if (rest > rank.capacity_bytes) return 0;
        if (rank.kv_bytes == 0) continue;
        const uint64_t each = rank.kv_bytes / uint64_t(most_pages);  // of a page of every sequence
        pages = std::min(pages, int64_t((rank.capacity_bytes - rest) / each));
    }
    return tokens(pages);
}

// Of one more row, over what a step costs without any, on all ranks together.
double Placing::row_cost(const std::vector<double>& of_one, const std::vector<double>& of_many,
                         int64_t rows) {
    const double one = std::accumulate(of_one.begin(), of_one.end(), 0.0),
                 many = std::accumulate(of_many.begin(), of_many.end(), 0.0);
    if (rows <= 1 || many <= one) return 0;
    const double row = (many - one) / double(rows - 1);
    return row / std::max(one - row, 1e-3 * row);
}

// The parts of a step follow each other through the ranks: the first takes the time of all ranks, each later
// one that of the slowest.
double Placing::layered_seconds(const Plan& plan, const std::vector<double>& of_one,
                                const std::vector<double>& of_all, int64_t rows) const {
    const int ranks = int(of_all.size()), parts = micro_batches(rows, ranks, plan.row_cost);
    const Hyperparameters& h = model_.numbers();
    double sum = 0, slowest = 0;
    for (size_t r = 0; r < of_all.size(); ++r) {
        // Between a step of one row and one of all.
        const double share = rows > 1 ? (double(rows) / parts - 1) / double(rows - 1) : 1.0;
        double time = of_one[r] + (of_all[r] - of_one[r]) * share;
        if (r + 1 < of_all.size())
            time +=
                message_seconds(double(rows) / parts * h.embedding * std::max(h.streams, 1) * sizeof(float),
                                machine_.link(r, r + 1));
        sum += time;
        slowest = std::max(slowest, time);
    }
    return sum + (parts - 1) * slowest;
}

void Placing::predict(Plan& plan) const {
    const Hyperparameters& h = model_.numbers();
    const int64_t position = plan.context_tokens / 2;
    const int ranks = int(plan.ranks.size()), devices = int(machine_.devices.size());
    MachineLink slowest = ranks > devices ? machine_.host.link : MachineLink{"none", 0, 1e18};
    for (int a = 0; a < devices; ++a)
        for (int b = 0; b < a; ++b) {
            const MachineLink& link = machine_.link(size_t(a), size_t(b));
            slowest.latency_us = std::max(slowest.latency_us, link.latency_us);
            slowest.bandwidth = std::min(slowest.bandwidth, link.bandwidth);
        }
    const std::vector<DryStep> steps{{plan.step_rows, 1, position, 1},
                                     {1, 1, position, 1},
                                     {plan.parallel, plan.parallel, position, plan.parallel}};
    std::vector<double> seconds(steps.size(), 0.0);
    std::vector<std::vector<double>> times(steps.size());  // of a rank
    double longest = 0;
    std::vector<double> factors;
    for (const DryStep& step : steps) {
        const double all = h.router.experts,
                     met =
                         all * (1.0 - std::pow(1.0 - h.router.used / std::max(all, 1.0), double(step.rows)));
        factors.push_back(
            plan.mode == Mode::expert ? expert_imbalance(h.router.experts, int(met + 0.5), devices) : 1.0);
    }
    for (size_t r = 0; r < plan.ranks.size(); ++r) {
        const MachineDevice device = device_of(r);
        const std::vector<Work> works = work(plan.ranks[r], plan, steps);
        for (size_t i = 0; i < steps.size(); ++i) {
            const Work& w = works[i];
            double time = work_seconds(w, device, int(r) < devices ? factors[i] : 1.0);
            if (plan.ranks[r].share.sums() && w.reductions > 0)
                time += double(w.reductions) *
                        reduction_seconds(double(w.reduction_bytes) / double(w.reductions), ranks, slowest);
            if (i == 1 && time > longest) {
                longest = time;
                plan.decode_work = w;
            }
            times[i].push_back(time);
            seconds[i] = std::max(seconds[i], time);
        }
    }
    if (plan.mode == Mode::layer) {
        plan.row_cost = row_cost(times[1], times[0], steps[0].rows);
        for (size_t i = 0; i < steps.size(); ++i)
            seconds[i] = layered_seconds(plan, times[1], times[i], steps[i].rows);
    }
    plan.prefill_rate = double(steps[0].rows) / seconds[0];
    plan.decode_rate = 1.0 / seconds[1];
    plan.batch_rate = double(plan.parallel) / seconds[2];
}

}  // namespace coterie
