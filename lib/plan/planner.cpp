// Tries the ways to place a model, and chooses: of those that fit with the context asked for (or, when none
// was, with the longest), the one predicted to answer a single sequence fastest.
#include "plan/planner.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include "base/failure.h"
#include "plan/placing.h"

namespace coterie {
namespace {

struct Candidate {
    std::unique_ptr<Placing> placing;
    Plan plan;
};

class Planner {
  public:
    Planner(const Model& model, const Machine& machine, const PlanRequest& request)
        : model_(model), machine_(machine), request_(request), h_(model.numbers()) {
        wanted_ = request.context_tokens > 0 ? request.context_tokens
                                             : std::min<int64_t>(h_.context, default_context_tokens);
    }

    Plan run() {
        std::vector<Candidate> ways;
        for (const Mode mode : modes()) try_way(mode, 0, ways);
        if (ways.empty()) fail(Status::unsupported, "{}", obstacle_);
        Plan plan;
        const bool fits =
            std::any_of(ways.begin(), ways.end(), [](const Candidate& c) { return c.plan.fits; });
        if (!fits && request_.host_experts) {
            if (std::optional<Candidate> host = on_host()) {
                host->placing->predict(host->plan);
                host->plan.reason = fmt::format(
                    "not all experts fit on the device{}; {} of {} of every layer are on the host",
                    machine_.devices.size() == 1 ? "" : "s", host->plan.host_experts, h_.router.experts);
                finish(host->plan);
                return std::move(host->plan);
            }
        }
        return fits ? best(ways) : refusal(ways);
    }

  private:
    std::vector<Mode> modes() const {
        if (machine_.devices.size() == 1) return {Mode::single};
        if (request_.mode != Mode::automatic) return {request_.mode};
        if (h_.has_experts()) return {Mode::tensor, Mode::expert, Mode::layer};
        return {Mode::tensor, Mode::layer};
    }

    void try_way(Mode mode, int32_t host_experts, std::vector<Candidate>& ways) {
        auto placing = std::make_unique<Placing>(model_, machine_, request_, mode, host_experts);
        if (!placing->obstacle().empty()) {
            obstacle_ = placing->obstacle();
            return;
        }
        Plan plan = placing->plan(wanted_);
        if (!plan.fits && request_.context_tokens <= 0) {
            const int64_t context = placing->largest_context(wanted_);
            if (context > 0) plan = placing->plan(context);
        }
        ways.push_back({std::move(placing), std::move(plan)});
    }

    Plan best(std::vector<Candidate>& ways) {
        int64_t longest = 0;
        for (Candidate& c : ways)
            if (c.plan.fits) longest = std::max(longest, c.plan.context_tokens);
        Candidate* chosen = nullptr;
        std::string others;
        for (Candidate& c : ways) {
            if (!c.plan.fits || c.plan.context_tokens < longest) continue;
            c.placing->predict(c.plan);
            if (!chosen || c.plan.decode_rate > chosen->plan.decode_rate) chosen = &c;
        }
        for (const Candidate& c : ways) {
            if (&c == chosen) continue;
            if (!others.empty()) others += ", ";
            if (!c.plan.fits)
                others += fmt::format("{} does not fit", mode_name(c.plan.mode));
            else if (c.plan.context_tokens < longest)
                others += fmt::format("{} has room for {} tokens of context only", mode_name(c.plan.mode),
                                      c.plan.context_tokens);
            else
                others += fmt::format("{} {:.1f}", mode_name(c.plan.mode), c.plan.decode_rate);
        }
        Plan& plan = chosen->plan;
        if (plan.mode == Mode::single)
            plan.reason = "there is one device";
        else if (request_.mode != Mode::automatic)
            plan.reason = fmt::format("{} mode was asked for", mode_name(plan.mode));
        else
            plan.reason = fmt::format("best predicted speed of one sequence, {:.1f} tokens/s ({})",
                                      plan.decode_rate, others);
        plan.largest_context = chosen->placing->largest_context(h_.context);
        finish(plan);
        return std::move(plan);
    }

    // As few experts on the host as will do, where one more rank computes them.
    std::optional<Candidate> on_host() {
        if (!h_.has_experts()) return std::nullopt;
        std::vector<Candidate> found;
        for (const Mode mode : {Mode::tensor, Mode::expert}) {
            if (request_.mode == Mode::layer) continue;
            if (request_.mode == Mode::tensor && mode == Mode::expert) continue;
            if (request_.mode == Mode::expert && mode == Mode::tensor) continue;
            if (machine_.devices.size() == 1 && mode == Mode::expert) continue;
            int32_t experts = 0;
            for (int turn = 0; turn < 8 && experts <= h_.router.experts; ++turn) {
                Candidate c{std::make_unique<Placing>(model_, machine_, request_, mode, experts), {}};
                if (!c.placing->obstacle().empty()) break;
                c.plan = c.placing->plan(wanted_);
                if (c.plan.fits) {
                    found.push_back(std::move(c));
                    break;
                }
                double more = 0;
                for (size_t r = 0; r < machine_.devices.size(); ++r) {
                    const RankPlan& rank = c.plan.ranks[r];
                    const double lacks = double(rank.total_bytes()) - double(rank.capacity_bytes);
                    if (lacks > 0) more = std::max(more, lacks / std::max(c.placing->expert_bytes()[r], 1.0));
                }
                if (more <= 0 || more > h_.router.experts)
                    break;  // the host is full, or experts are not enough
                experts += std::max(1, int32_t(std::ceil(more)));
            }
        }
        if (found.empty()) return std::nullopt;
        for (Candidate& c : found) c.placing->predict(c.plan);
        return std::move(*std::max_element(
            found.begin(), found.end(),
            [](const Candidate& a, const Candidate& b) { return a.plan.decode_rate < b.plan.decode_rate; }));
    }

    Plan refusal(std::vector<Candidate>& ways) {
        Candidate& least =
            *std::min_element(ways.begin(), ways.end(), [](const Candidate& a, const Candidate& b) {
                return Placing::excess(a.plan) < Placing::excess(b.plan);
            });
        Plan& plan = least.plan;
        plan.reason = ways.size() == 1
                          ? "it does not fit"
                          : fmt::format("no way fits; {} mode lacks least", mode_name(plan.mode));
        constexpr size_t most_named = 4;
        size_t over = 0;
        for (size_t r = 0; r < plan.ranks.size(); ++r) {
            const RankPlan& rank = plan.ranks[r];
            if (rank.total_bytes() <= rank.capacity_bytes) continue;
            if (++over <= most_named)
                plan.problems.push_back(fmt::format("rank {} ({}) needs {} and has {}: {} bytes too many", r,
                                                    rank.device, bytes_text(rank.total_bytes()),
                                                    bytes_text(rank.capacity_bytes),
                                                    rank.total_bytes() - rank.capacity_bytes));
        }
        if (over > most_named)
            plan.problems.push_back(fmt::format("{} more ranks lack memory too", over - most_named));
        suggest(ways, plan);
        finish(plan);
        return std::move(plan);
    }

    void suggest(std::vector<Candidate>& ways, Plan& plan) {
        const auto longest = [&](std::vector<Candidate>& all, Mode& mode) {
            int64_t context = 0;
            for (Candidate& c : all) {
                const int64_t tokens = c.placing->largest_context(wanted_);
                if (tokens > context) {
                    context = tokens;
                    mode = c.plan.mode;
                }
            }
            return context;
        };
        Mode mode = Mode::single;
        const std::string sequences =
            plan.parallel == 1 ? "for one sequence" : fmt::format("for each of {} sequences", plan.parallel);
        plan.largest_context = longest(ways, mode);
        if (plan.largest_context > 0) {
            plan.suggestions.push_back(fmt::format("a context of {} tokens {} would fit, in {} mode",
                                                   plan.largest_context, sequences, mode_name(mode)));
        } else {
            plan.suggestions.push_back("no context would fit");
        }
        const bool q8_0 = h_.key_dim % 32 == 0 && h_.value_dim % 32 == 0;
        if (q8_0 && (request_.key_type != Type::Q8_0 || request_.value_type != Type::Q8_0)) {
            PlanRequest other = request_;
            other.key_type = other.value_type = Type::Q8_0;
            std::vector<Candidate> smaller;
            for (const Candidate& c : ways) {
                auto placing = std::make_unique<Placing>(model_, machine_, other, c.plan.mode, 0);
                Plan empty;
                empty.mode = c.plan.mode;
                smaller.push_back({std::move(placing), std::move(empty)});
            }
            const int64_t context = longest(smaller, mode);
            if (context > plan.largest_context)
                plan.suggestions.push_back(
                    context >= wanted_
                        ? fmt::format("with a Q8_0 cache it would fit as asked, in {} mode", mode_name(mode))
                        : fmt::format("with a Q8_0 cache a context of {} tokens {} would fit, in {} mode",
                                      context, sequences, mode_name(mode)));
        }
        if (!h_.has_experts()) return;
        if (request_.host_experts) {
            plan.suggestions.push_back("experts on the host are not enough");
        } else if (std::optional<Candidate> host = on_host()) {
            plan.suggestions.push_back(
                fmt::format("with {} of {} experts of every layer on the host ({}) it would fit as asked, at "
                            "about {:.1f} "
                            "tokens/s",
                            host->plan.host_experts, h_.router.experts,
                            bytes_text(host->plan.ranks.back().weights_bytes), host->plan.decode_rate));
        }
    }

    void finish(Plan& plan) const {
        plan.model = std::filesystem::path(model_.file().path()).filename().string();
        plan.machine = machine_.name;
        plan.mixture = h_.has_experts();
        if (plan.context_tokens > h_.context)
            plan.notes.push_back(fmt::format("the model was made for {} tokens of context", h_.context));
        const uint64_t table = plan.host_bytes - (plan.host_experts ? plan.ranks.back().weights_bytes : 0);
        if (table > 0)
            plan.notes.push_back(fmt::format("the n-gram table ({}) is on the host{}", bytes_text(table),
                                             table > machine_.host.free_bytes
                                                 ? ", which has not enough memory for it: rows will be read "
                                                   "from the file"
                                                 : ""));
        if (!model_.architecture().runs)
            plan.notes.push_back(
                fmt::format("models of architecture '{}' can be planned, but not run yet", h_.architecture));
    }

    const Model& model_;
    const Machine& machine_;
    const PlanRequest& request_;
    const Hyperparameters& h_;
    int64_t wanted_ = 0;
    std::string obstacle_;
};

void check(const Hyperparameters& h, const Machine& machine, const PlanRequest& r) {
    if (machine.devices.empty() || machine.devices.size() > 64)
        fail(Status::invalid_argument, "the machine '{}' has {} devices; a plan needs 1 to 64", machine.name,
             machine.devices.size());
    if (r.context_tokens < 0 || r.context_tokens > int64_t(1) << 32)
        fail(Status::invalid_argument, "a context of {} tokens can't be had", r.context_tokens);
    if (r.parallel < 1 || r.parallel > 4096)
        fail(Status::invalid_argument, "{} parallel sequences can't be had; 1 to 4096 can", r.parallel);
    if (r.step_rows < 0 || r.step_rows > 1 << 20)
        fail(Status::invalid_argument, "steps of {} rows can't be had; 1 to 1048576 can", r.step_rows);
    for (const Type type : {r.key_type, r.value_type})
        if (type != Type::F16 && type != Type::Q8_0 && type != Type::F32)
            fail(Status::invalid_argument, "the cache can be F16, Q8_0 or F32, not {}", type_name(type));
    if ((r.key_type == Type::Q8_0 && h.key_dim % 32) || (r.value_type == Type::Q8_0 && h.value_dim % 32))
        fail(Status::unsupported,
             "a Q8_0 cache needs heads with a multiple of 32 numbers, but this model's keys have {} and its "
             "values {}; use an f16 cache",
             h.key_dim, h.value_dim);
    if (r.mode == Mode::single && machine.devices.size() > 1)
        fail(Status::invalid_argument, "{} devices can't be used as one; choose tensor, expert or layer mode",
             machine.devices.size());
    if (r.limits.size() > machine.devices.size())
        fail(Status::invalid_argument, "{} limits were given for {} devices", r.limits.size(),
             machine.devices.size());
}

}  // namespace

Plan make_plan(const Model& model, const Machine& machine, const PlanRequest& request) {
    check(model.numbers(), machine, request);
    return Planner(model, machine, request).run();
}

}  // namespace coterie
