// The device's operations on rows: element by element, products with weights, experts.
#include <utility>
#include <vector>

#include "base/failure.h"
#include "cuda/cuda_device.h"
#include "cuda/kernels/lookup.h"
#include "cuda/kernels/ranking.h"
#include "cuda/kernels/rounding.h"
#include "cuda/kernels/routing.h"
#include "cuda/view_of.h"
#include "cuda/weight.h"
#include "device/checks.h"

namespace coterie::cuda {

void CudaDevice::embed(Rows y, const Weight& table, const Step& step, float scale, int64_t first) {
    written(y);
    check_shape(y, step.rows(), table.in);
    COTERIE_CHECK(table.experts == 1);
    done(look_up(view_of(y), held(table), step_.view().tokens, scale, first, stream_.get()),
         "look up tokens");
}

Rounded CudaDevice::rounding_of(Rows y) {
    made_ = {};
    Rounded r;
    if (y.rows == 0 || y.width == 0 || y.width % group_columns) return r;
    r.groups = int32_t(y.width / group_columns);
    const uint64_t groups = uint64_t(y.rows) * uint64_t(r.groups);
    r.codes = static_cast<int8_t*>(scratch(made_codes_, groups * group_columns, "rounded activations"));
    r.scales =
        static_cast<RoundedScale*>(scratch(made_scales_, groups * sizeof(RoundedScale), "their scales"));
    made_ = y;
    return r;
}

void CudaDevice::written(Rows y) {
    if (!made_.data || y.rows == 0) return;
    const auto end = [](const Rows& x) { return x.row(x.rows - 1) + x.width; };
    if (y.data < end(made_) && made_.data < end(y)) made_ = {};
}

void CudaDevice::rms_norm(Rows y, Rows x, const float* gain, float eps) {
    check_same_shape(x, y);
    Norm n;
    n.y = view_of(y), n.x = view_of(x), n.gain = gain, n.eps = eps, n.rounded = rounding_of(y);
    done(norm(n, stream_.get()), "norm");
}

void CudaDevice::l2_norm(Rows x, int32_t heads, float eps) {
    written(x);
    check_rows(x);
    COTERIE_CHECK(heads > 0 && x.width % heads == 0);
    Norm n;
    n.y = n.x = view_of(x), n.parts = heads, n.mean = false, n.eps = eps;
    done(norm(n, stream_.get()), "norm");
}

void CudaDevice::add_rms_norm(Rows x, Rows y, Rows h, const float* gain, float eps) {
    check_same_shape(x, y);
    check_same_shape(x, h);
    Norm n;
    n.y = view_of(h), n.x = view_of(x), n.added = y.data, n.added_stride = y.stride, n.gain = gain,
    n.eps = eps, n.rounded = rounding_of(h);
    done(norm(n, stream_.get()), "norm");
}

void CudaDevice::add(Rows x, Rows y) {
    written(x);
    check_same_shape(x, y);
    done(elementwise(Elementwise::add, view_of(x), view_of(y), {}, 0, stream_.get()), "add");
}
void CudaDevice::clear(Rows y) {
    written(y);
    check_rows(y);
    done(elementwise(Elementwise::clear, view_of(y), {}, {}, 0, stream_.get()), "clear");
}
void CudaDevice::activate(Rows y, Rows gate, Rows up, Activation activation) {
    check_same_shape(y, gate);
    check_same_shape(y, up);
    done(elementwise(operation_of(activation), view_of(y), view_of(gate), view_of(up), 0, stream_.get(),
                     rounding_of(y)),
         "activate");
}
void CudaDevice::sigmoid_gate(Rows y, Rows gate) {
    check_rows(y);
    COTERIE_CHECK(gate.width == y.width || gate.width == 1);
    check_shape(gate, y.rows, gate.width);
    done(elementwise(Elementwise::sigmoid_gate, view_of(y), view_of(gate), {}, 0, stream_.get(),
                     rounding_of(y)),
         "gate");
}
void CudaDevice::softcap(Rows x, float cap) {
    written(x);
    check_rows(x);
    COTERIE_CHECK(cap > 0);
    done(elementwise(Elementwise::softcap, view_of(x), {}, {}, cap, stream_.get()), "cap");
}
void CudaDevice::select_rows(Rows y, Rows x, const Step& step) {
    written(y);
    check_shape(x, step.rows(), x.width);
    check_shape(y, int64_t(step.outputs.size()), x.width);
    done(cuda::select_rows(view_of(y), view_of(x), step_.view().outputs, stream_.get()), "select rows");
}

// Packed weights take activations rounded to 8 bits; they are rounded once for all products that share them.
void CudaDevice::rounded(Product& p, Rows x) {
    p.x = view_of(x);
    if (!is_packed(p.w.type) || p.rounded.codes) return;
    Rounded r;
    r.groups = int32_t(x.width / group_columns);
    if (x.data == made_.data && x.rows <= made_.rows && x.width == made_.width &&
        (x.stride == made_.stride || x.rows == 1)) {
        r.codes = made_codes_.data<int8_t>();
        r.scales = made_scales_.data<RoundedScale>();
        p.rounded = r;
        return;
    }
    const uint64_t groups = uint64_t(x.rows) * uint64_t(r.groups);
    r.codes = static_cast<int8_t*>(scratch(rounded_codes_, groups * group_columns, "rounded activations"));
    r.scales =
        static_cast<RoundedScale*>(scratch(rounded_scales_, groups * sizeof(RoundedScale), "their scales"));
    done(round_rows(r, p.x, stream_.get()), "round activations");
    p.rounded = r;
}

void CudaDevice::product_of(Product p, Rows y, const Weight& weight, Rows x, const float* bias,
                            const Further& further) {
    check_shape(x, x.rows, weight.in);
    check_shape(y, x.rows, weight.out);
    COTERIE_CHECK(weight.experts == 1);
    p.y = view_of(y);
    p.w = held(weight);
    p.bias = bias;
    rounded(p, x);
    written(y);
    if (x.rows >= fewest_tiled_rows)
        done(product_tiled(p, {}, stream_.get()), "multiply");
    else
        done(product(p, stream_.get(), further), "multiply");
}

void CudaDevice::linear(Rows y, const Weight& weight, Rows x, const float* bias) {
    product_of({}, y, weight, x, bias);
}

// Projections of one type share a launch at few rows: q and k, and v where it has their type.
void CudaDevice::linear_many(std::span<const Projection> projections, Rows x) {
    Product shared;
    std::vector<bool> made(projections.size());
    for (size_t first = 0; first < projections.size(); ++first) {
        if (made[first]) continue;
        const Projection& p = projections[first];
        shared.w = held(*p.weight);
        rounded(shared, x);
        Further further;
        for (size_t i = first + 1; i < projections.size() && further.count < Further::most; ++i) {
            const Projection& other = projections[i];
            if (made[i] || held(*other.weight).type != shared.w.type || x.rows >= fewest_tiled_rows) continue;
            check_shape(other.y, x.rows, other.weight->out);
            COTERIE_CHECK(other.weight->in == p.weight->in && other.weight->experts == 1);
            written(other.y);
            further.part[further.count++] = {held(*other.weight), other.bias, other.y.data, other.y.stride};
            made[i] = true;
        }
        product_of(shared, p.y, *p.weight, x, p.bias, further);
    }
}

void CudaDevice::gate_up(Rows y, const Weight& gate, const Weight& up, Rows x, Activation activation,
                         Rows scratch) {
    // Weights of different types share no kernel; for several rows two passes are as good.
    if (held(gate).type != held(up).type || x.rows > 1)
        return Device::gate_up(y, gate, up, x, activation, scratch);
    COTERIE_CHECK(gate.in == up.in && gate.out == up.out && up.experts == 1);
    Product p;
    p.up = held(up);
    p.activation = operation_of(activation);
    product_of(p, y, gate, x, nullptr);
}

void CudaDevice::choose_experts(Routing routing, Rows scores, const Router& router) {
    check_routing(routing);
    check_shape(scores, routing.rows, router.experts);
    COTERIE_CHECK(routing.used == router.used && router.used <= router.experts);
    COTERIE_CHECK(router.groups >= 1 && router.experts % router.groups == 0);
    COTERIE_CHECK(router.groups_used >= 1 && router.groups_used <= router.groups);
    COTERIE_CHECK(router.groups == 1 || router.experts / router.groups * router.groups_used >= router.used);
    if (router.experts > most_experts || router.used > most_experts_used)
        fail(Status::unsupported, "CUDA devices choose up to {} of {} experts, and this model wants {} of {}",
             most_experts_used, most_experts, router.used, router.experts);
    RouterWork w;
    w.scores = view_of(scores);
    w.used = router.used;
    w.gating = Gating(int(router.gating));
    w.normalise = router.normalise;
    w.scale = router.scale;
    w.selection_bias = router.selection_bias;
    w.groups = router.groups;
    w.groups_used = router.groups_used;
    w.experts = routing.experts;
    w.weights = routing.weights;
    done(cuda::choose_experts(w, stream_.get()), "choose experts");
}

static Choices choices_of(const Routing& routing, const ExpertWeight& weight) {
    return {routing.experts, routing.weights, routing.used, weight.first};
}

Grouping CudaDevice::grouping(const Choices& choices, int64_t rows, int32_t experts) {
    Grouping g;
    if (rows < fewest_tiled_routed_rows || experts > most_grouped_experts) return g;
    const int64_t count = rows * choices.used;
    g.tile_rows = rows_of_tile(count, experts);
    g.most = most_tiles(count, experts, g.tile_rows);
    g.order =
        static_cast<int32_t*>(scratch(order_, uint64_t(count) * sizeof(int32_t), "the order of choices"));
    g.tiles = static_cast<RowTile*>(scratch(tiles_, uint64_t(g.most) * sizeof(RowTile), "tiles of choices"));
    done(group_choices(g, choices, count, experts, stream_.get()), "group choices");
    return g;
}

void CudaDevice::multiply(const Product& p, const Grouping& g) {
    done(g.tiles ? product_tiled(p, g, stream_.get()) : product(p, stream_.get()), "multiply");
}

void CudaDevice::expert_linear(Rows y, const ExpertWeight& weight, Rows x, const Routing& routing) {
    COTERIE_CHECK(weight.weight != nullptr);
    check_routing(routing);
    const int64_t all = routing.rows * routing.used;
    COTERIE_CHECK(x.rows == routing.rows || x.rows == all);
    check_shape(x, x.rows, weight.weight->in);
    check_shape(y, all, weight.weight->out);
    Product p;
    p.y = view_of(y);
    p.w = held(*weight.weight);
    p.bias = weight.bias;
    p.choices = choices_of(routing, weight);
    p.x_per_choice = x.rows == all;
    rounded(p, x);
    written(y);
    multiply(p, grouping(p.choices, routing.rows, p.w.experts));
}

void CudaDevice::expert_gate_up(Rows e, const ExpertWeight& gate, const ExpertWeight& up, Rows x,
                                const Routing& routing, Activation activation, Rows scratch) {
    COTERIE_CHECK(gate.weight != nullptr && up.weight != nullptr);
    if (held(*gate.weight).type != held(*up.weight).type)
        return Device::expert_gate_up(e, gate, up, x, routing, activation, scratch);
    check_routing(routing);
    const int64_t all = routing.rows * routing.used;
    COTERIE_CHECK(x.rows == routing.rows || x.rows == all);
    COTERIE_CHECK(gate.weight->in == up.weight->in && gate.weight->out == up.weight->out);
    COTERIE_CHECK(gate.first == up.first && gate.weight->experts == up.weight->experts);
    check_shape(x, x.rows, gate.weight->in);
    check_shape(e, all, gate.weight->out);
    Product p;
    p.y = view_of(e);
    p.w = held(*gate.weight);
    p.bias = gate.bias;
    p.up = held(*up.weight);
    p.up_bias = up.bias;
    p.activation = operation_of(activation);
    p.choices = choices_of(routing, gate);
    p.x_per_choice = x.rows == all;
    rounded(p, x);
    written(e);
    const Grouping g = grouping(p.choices, routing.rows, p.w.experts);
    if (g.tiles) {
        check_shape(scratch, all, gate.weight->out);
        written(scratch);
        Product other = p;
        other.y = view_of(scratch);
        other.w = std::exchange(p.up, {});
        other.bias = std::exchange(p.up_bias, nullptr);
        other.up = {};
        multiply(p, g);
        multiply(other, g);
        return activate(e, e, scratch, activation);
    }
    done(product(p, stream_.get()), "multiply");
    // Choices elsewhere are zero rows, as in the body: act(0) * 0 = 0 for every activation.
}

void CudaDevice::expert_down_combine(Rows y, const ExpertWeight& down, Rows e, const Routing& routing,
                                     Rows scratch) {
    COTERIE_CHECK(down.weight != nullptr);
    check_routing(routing);
    check_shape(e, routing.rows * routing.used, down.weight->in);
    check_shape(y, routing.rows, down.weight->out);
    Product p;
    p.y = view_of(y);
    p.w = held(*down.weight);
    p.bias = down.bias;
    p.choices = choices_of(routing, down);
    p.x_per_choice = true;
    rounded(p, e);
    written(y);
    const Grouping g = grouping(p.choices, routing.rows, p.w.experts);
    if (g.tiles) {
        check_shape(scratch, routing.rows * routing.used, down.weight->out);
        written(scratch);
        p.y = view_of(scratch);
        multiply(p, g);
        return expert_combine(y, scratch, routing);
    }
    done(product_combined(p, stream_.get()), "multiply");
}

void CudaDevice::expert_combine(Rows y, Rows e, const Routing& routing) {
    written(y);
    check_routing(routing);
    check_shape(y, routing.rows, y.width);
    check_shape(e, routing.rows * routing.used, y.width);
    done(combine_experts(view_of(y), view_of(e), routing.weights, routing.used, stream_.get()),
         "combine experts");
}

static_assert(sizeof(Ranked) == sizeof(RankedNumber), "ranked numbers are written as they are");

int32_t CudaDevice::most_ranked() const {
    return cuda::most_ranked;
}

void CudaDevice::rank(Ranked* best, int32_t count, Rows x) {
    if (count > cuda::most_ranked) return Device::rank(best, count, x);
    check_rows(x);
    COTERIE_CHECK(count >= 0 && (best != nullptr || count == 0 || x.rows == 0));
    const int64_t keys = ranking_scratch(x.rows, x.width, count);
    uint64_t* held = nullptr;
    if (keys) held = static_cast<uint64_t*>(scratch(ranking_, uint64_t(keys) * 8, "the ranking of logits"));
    done(cuda::rank(reinterpret_cast<RankedNumber*>(best), count, view_of(x), held, stream_.get()),
         "rank logits");
}

}  // namespace coterie::cuda
