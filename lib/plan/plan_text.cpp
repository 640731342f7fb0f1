// Plans for people and for programs.
#include <fmt/format.h>

#include "base/json.h"
#include "plan/planner.h"

namespace coterie {
namespace {

// "[3, 7)" as people count: "3-6".
std::string span_text(Range r) {
    if (r.end <= r.begin) return "none";
    return r.end - r.begin == 1 ? fmt::format("{}", r.begin) : fmt::format("{}-{}", r.begin, r.end - 1);
}

// What a rank holds, by the first layer of each kind.
std::string holding(const RankPlan& rank, Mode mode, bool mixture) {
    const Share& share = rank.share;
    if (mode == Mode::single && share.ranks == 1) return "everything";
    if (mode == Mode::layer)
        return fmt::format("layers {}{}{}", span_text(share.layers), share.has_embedding ? ", embedding" : "",
                           share.has_head ? ", head" : "");
    std::string text;
    const auto add = [&](const char* what, Range LayerShare::*axis) {
        int64_t least = INT64_MAX, most = 0;
        for (const LayerShare& s : share.layer) {
            const int64_t n = (s.*axis).end - (s.*axis).begin;
            if (n == 0) continue;
            least = std::min(least, n);
            most = std::max(most, n);
        }
        if (most == 0) return;
        if (!text.empty()) text += ", ";
        std::string name = what;
        if (most == 1) name.pop_back();  // one head
        text += least == most ? fmt::format("{} {}", most, name) : fmt::format("{}-{} {}", least, most, name);
    };
    add("heads", &LayerShare::heads);
    add("KV heads", &LayerShare::kv_heads);
    add("key heads", &LayerShare::key_heads);
    bool experts = false;
    for (const LayerShare& s : share.layer)
        experts |= s.experts.end > s.experts.begin && s.expert_width.end > s.expert_width.begin;
    if (!mixture) add("FFN columns", &LayerShare::feed_forward);
    if (experts) {
        add("experts", &LayerShare::experts);
        add("expert columns", &LayerShare::expert_width);
    }
    add("shared columns", &LayerShare::shared_width);
    if (share.vocabulary.end > share.vocabulary.begin)
        text += fmt::format("{}{} vocabulary rows", text.empty() ? "" : ", ",
                            share.vocabulary.end - share.vocabulary.begin);
    return text.empty() ? "nothing" : text;
}

}  // namespace

std::string bytes_text(uint64_t bytes) {
    if (bytes < 1000) return fmt::format("{} B", bytes);
    double value = double(bytes);
    for (const char* unit : {"kB", "MB", "GB"}) {
        value /= 1000;
        if (value < 999.995 || unit[0] == 'G') return fmt::format("{:.2f} {}", value, unit);
    }
    return {};
}

std::string refusal_text(const Plan& plan) {
    std::string text = fmt::format("the model does not fit on {}", plan.machine);
    const auto append = [&](const std::vector<std::string>& sentences) {
        for (const std::string& s : sentences) text += "; " + s;
    };
    append(plan.problems);
    append(plan.suggestions);
    return text;
}

std::string plan_text(const Plan& p) {
    std::string text;
    const auto line = [&](const std::string& s) { text += s + "\n"; };
    line(fmt::format("{} on {}: {}", p.model, p.machine, p.fits ? "fits" : "does not fit"));
    line(fmt::format("mode       {}: {}", mode_name(p.mode), p.reason));
    line(fmt::format("context    {} tokens for {} sequence{}, cache {}{}", p.context_tokens, p.parallel,
                     p.parallel == 1 ? "" : "s", type_name(p.key_type),
                     p.key_type == p.value_type ? "" : fmt::format(" and {}", type_name(p.value_type))));
    if (p.fits) {
        line(fmt::format(
            "predicted  prefill {:.1f} tokens/s, decode {:.1f} tokens/s{}", p.prefill_rate, p.decode_rate,
            p.parallel == 1
                ? ""
                : fmt::format(", {} sequences together {:.1f} tokens/s", p.parallel, p.batch_rate)));
        const Work& w = p.decode_work;
        line(fmt::format("a token    reads {} on the slowest rank, in {} operations{}",
                         bytes_text(w.weight_bytes + w.cache_bytes), w.operations,
                         w.reductions == 0
                             ? ""
                             : fmt::format(" and {} meetings of {}", w.reductions,
                                           bytes_text(w.reduction_bytes / uint64_t(w.reductions)))));
        if (p.largest_context > p.context_tokens)
            line(fmt::format("room for   {} tokens of context", p.largest_context));
    }
    if (p.ranks.size() > 1) line(fmt::format("imbalance  {:.3f} (fullest over mean)", p.imbalance));
    line("");
    line(fmt::format("{:<5}{:<8}{:>11}{:>11}{:>11}{:>11}{:>11}{:>11}{:>11}", "rank", "device", "weights",
                     "KV", "state", "scratch", "comm", "total", "capacity"));
    for (size_t r = 0; r < p.ranks.size(); ++r) {
        const RankPlan& k = p.ranks[r];
        line(fmt::format("{:<5}{:<8}{:>11}{:>11}{:>11}{:>11}{:>11}{:>11}{:>11}", r, k.device,
                         bytes_text(k.weights_bytes), bytes_text(k.kv_bytes), bytes_text(k.state_bytes),
                         bytes_text(k.scratch_bytes), bytes_text(k.comm_bytes), bytes_text(k.total_bytes()),
                         bytes_text(k.capacity_bytes)));
    }
    line("");
    for (size_t r = 0; r < p.ranks.size(); ++r)
        line(fmt::format("rank {} holds {}", r, holding(p.ranks[r], p.mode, p.mixture)));
    for (const std::string& s : p.problems) line("problem: " + s);
    for (const std::string& s : p.suggestions) line("instead: " + s);
    for (const std::string& s : p.notes) line("note: " + s);
    return text;
}

std::string plan_json(const Plan& p) {
    Json json;
    json["model"] = p.model;
    json["machine"] = p.machine;
    json["fits"] = p.fits;
    json["mode"] = mode_name(p.mode);
    json["reason"] = p.reason;
    json["imbalance"] = p.imbalance;
    json["predicted"] = {{"prefill_tokens_per_s", p.prefill_rate},
                         {"decode_tokens_per_s", p.decode_rate},
                         {"batch_decode_tokens_per_s", p.batch_rate}};
    json["ranks"] = Json::array();
    for (const RankPlan& k : p.ranks)
        json["ranks"].push_back({{"device", k.device},
                                 {"weights_bytes", k.weights_bytes},
                                 {"kv_bytes", k.kv_bytes},
                                 {"state_bytes", k.state_bytes},
                                 {"scratch_bytes", k.scratch_bytes},
                                 {"comm_bytes", k.comm_bytes},
                                 {"total_bytes", k.total_bytes()},
                                 {"capacity_bytes", k.capacity_bytes}});
    json["holds"] = Json::array();
    for (const RankPlan& k : p.ranks) json["holds"].push_back(holding(k, p.mode, p.mixture));
    json["context_tokens"] = p.context_tokens;
    json["largest_context_tokens"] = p.largest_context;
    json["parallel"] = p.parallel;
    json["step_rows"] = p.step_rows;
    json["key_type"] = type_name(p.key_type);
    json["value_type"] = type_name(p.value_type);
    json["host_bytes"] = p.host_bytes;
    json["host_experts"] = p.host_experts;
    json["problems"] = p.problems;
    json["suggestions"] = p.suggestions;
    json["notes"] = p.notes;
    return json.dump(2);
}

}  // namespace coterie
