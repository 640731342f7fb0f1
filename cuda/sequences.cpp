// The device's operations on sequences: the cache, attention, recurrent states.
#include <algorithm>

#include "base/failure.h"
#include "cuda/cuda_device.h"
#include "cuda/view_of.h"
#include "device/checks.h"

namespace coterie::cuda {

namespace {

class CudaCache final : public Cache {
  public:
    CudaCache(const CacheShape& of, int device)
        : Cache(of),
          page_bytes(int64_t((of.page_bytes() + 255) / 256 * 256)),
          memory(device, uint64_t(page_bytes) * uint64_t(of.pages), "the cache of keys and values") {
        int64_t at = 0;
        for (const CacheShape::Layer& l : of.layers) {
            CacheLayer layer;
            layer.pages = memory.data<uint8_t>();
            layer.page_bytes = page_bytes;
            layer.page_tokens = of.page_tokens;
            layer.kv_heads = l.kv_heads;
            layer.key_dim = l.key_dim;
            layer.value_dim = l.value_dim;
            layer.key_type = of.key_type;
            layer.value_type = of.value_type;
            const int64_t vectors = int64_t(of.page_tokens) * l.kv_heads;
            layer.keys = at;
            layer.key_scales = at += vectors * l.key_dim * number_bytes(of.key_type);
            layer.values = at += of.key_type == Type::Q8_0 ? vectors * l.key_dim / 32 * 2 : 0;
            layer.value_scales = at += vectors * l.value_dim * number_bytes(of.value_type);
            at += of.value_type == Type::Q8_0 ? vectors * l.value_dim / 32 * 2 : 0;
            layers.push_back(layer);
        }
        COTERIE_CHECK(at == int64_t(of.page_bytes()));
    }
    std::vector<CacheLayer> layers;
    const int64_t page_bytes;
    const DeviceMemory memory;

    uint8_t* page(int32_t number) const {
        COTERIE_CHECK(number >= 0 && number < shape.pages);
        return memory.data<uint8_t>() + number * page_bytes;
    }
    const CacheLayer& layer(int32_t index) const {
        COTERIE_CHECK(index >= 0 && size_t(index) < layers.size());
        return layers[size_t(index)];
    }

  private:
    static int64_t number_bytes(Type type) { return type == Type::F32 ? 4 : type == Type::F16 ? 2 : 1; }
};

const CudaCache& held(const Cache& cache) {
    const auto* own = dynamic_cast<const CudaCache*>(&cache);
    COTERIE_CHECK(own != nullptr);
    return *own;
}

class CudaStates final : public States {
  public:
    CudaStates(const StateShape& of, int device)
        : States(of), memory(device, of.slot_bytes() * uint64_t(of.slots), "recurrent states") {
        int64_t at = 0;
        for (const StateShape::Layer& l : of.layers) {
            StateLayer layer;
            layer.data = memory.data<float>() + at;
            layer.slot_floats = int64_t(of.slot_bytes() / sizeof(float));
            layer.channels = l.channels;
            layer.taps = l.taps;
            layer.value_heads = l.value_heads;
            layer.key_dim = l.key_dim;
            layer.value_dim = l.value_dim;
            layers.push_back(layer);
            at += l.history_floats() + l.state_floats();
        }
    }
    std::vector<StateLayer> layers;
    const DeviceMemory memory;

    float* slot(int32_t number) const {
        COTERIE_CHECK(number >= 0 && number < shape.slots);
        return memory.data<float>() + uint64_t(number) * (shape.slot_bytes() / sizeof(float));
    }
    const StateLayer& layer(int32_t index) const {
        COTERIE_CHECK(index >= 0 && size_t(index) < layers.size());
        return layers[size_t(index)];
    }
};

const CudaStates& held(const States& states) {
    const auto* own = dynamic_cast<const CudaStates*>(&states);
    COTERIE_CHECK(own != nullptr);
    return *own;
}

Rotation rotation_of(const Rope& rope) {
    return {rope.pairs == Rope::Pairs::adjacent, rope.dimensions, rope.frequencies, rope.magnitude};
}

}  // namespace

std::unique_ptr<Cache> CudaDevice::make_cache(const CacheShape& shape) {
    COTERIE_CHECK(shape.page_tokens > 0 && shape.pages >= 0);
    if (shape.page_tokens % 8)
        fail(Status::unsupported, "CUDA devices need pages of a multiple of 8 tokens, not {}",
             shape.page_tokens);
    for (const Type type : {shape.key_type, shape.value_type})
        if (type != Type::F32 && type != Type::F16 && type != Type::Q8_0)
            fail(Status::unsupported, "keys and values can be F32, F16 or Q8_0, not {}", type_name(type));
    for (const CacheShape::Layer& l : shape.layers) {
        COTERIE_CHECK(l.kv_heads >= 0 && l.key_dim >= 0 && l.value_dim >= 0);
        if ((shape.key_type == Type::Q8_0 && l.key_dim % 32) ||
            (shape.value_type == Type::Q8_0 && l.value_dim % 32))
            fail(Status::unsupported,
                 "Q8_0 needs keys and values of a multiple of 32 numbers, not {} and {}; use F16", l.key_dim,
                 l.value_dim);
        if (l.key_dim % 4 || l.value_dim % 4 || l.key_dim > most_head_width || l.value_dim > most_head_width)
            fail(Status::unsupported,
                 "CUDA devices take keys and values of a multiple of 4 numbers, up to {}, not {} and {}",
                 most_head_width, l.key_dim, l.value_dim);
    }
    not_recorded("a cache");
    auto cache = std::make_unique<CudaCache>(shape, options_.device);
    if (cache->memory.bytes())
        done(cudaMemsetAsync(cache->memory.data(), 0, cache->memory.bytes(), stream_.get()),
             "clear the cache");
    return cache;
}

void CudaDevice::copy_page(Cache& cache, int32_t from, int32_t to) {
    not_recorded("a page");
    use(options_.device);
    const CudaCache& c = held(cache);
    done(cudaMemcpyAsync(c.page(to), c.page(from), c.shape.page_bytes(), cudaMemcpyDeviceToDevice,
                         stream_.get()),
         "copy a page");
}
void CudaDevice::read_page(const Cache& cache, int32_t page, std::byte* to) {
    copy_out(to, held(cache).page(page), cache.shape.page_bytes());
}
void CudaDevice::write_page(Cache& cache, int32_t page, const std::byte* from) {
    copy_in(held(cache).page(page), from, cache.shape.page_bytes());
}

void CudaDevice::rope(Rows x, int32_t heads, const Rope& rope, const Step& step) {
    written(x);
    COTERIE_CHECK(heads > 0 && x.width % heads == 0);
    check_shape(x, step.rows(), x.width);
    const int64_t dim = x.width / heads;
    COTERIE_CHECK(rope.dimensions >= 0 && rope.dimensions <= dim && rope.dimensions % 2 == 0);
    COTERIE_CHECK(rope.dimensions == 0 || rope.frequencies != nullptr);
    COTERIE_CHECK(dim <= most_rope_width);
    HeadWork w;
    w.q = view_of(x);
    w.heads = heads;
    w.cache.key_dim = int32_t(dim);
    w.rotate = true;
    w.rotation = rotation_of(rope);
    w.step = step_.view();
    done(head_work(w, stream_.get()), "rotate");
}

void CudaDevice::store_kv(Cache& cache, int32_t layer, Rows k, Rows v, const Step& step) {
    const CudaCache& c = held(cache);
    check_pages(step, c.shape);
    HeadWork w;
    w.cache = c.layer(layer);
    check_shape(k, step.rows(), int64_t(w.cache.kv_heads) * w.cache.key_dim);
    check_shape(v, step.rows(), int64_t(w.cache.kv_heads) * w.cache.value_dim);
    w.k = view_of(k);
    w.v = view_of(v);
    w.store = true;
    w.step = step_.view();
    done(head_work(w, stream_.get()), "store keys and values");
}

void CudaDevice::norm_rope_store(Rows q, Rows k, Rows v, const float* q_gain, const float* k_gain, float eps,
                                 const Rope& rope, const Attention& attention, Cache& cache, int32_t layer,
                                 const Step& step) {
    written(q), written(k);
    const CudaCache& c = held(cache);
    check_pages(step, c.shape);
    HeadWork w;
    w.cache = c.layer(layer);
    check_shape(q, step.rows(), int64_t(attention.heads) * w.cache.key_dim);
    check_shape(k, step.rows(), int64_t(w.cache.kv_heads) * w.cache.key_dim);
    check_shape(v, step.rows(), int64_t(w.cache.kv_heads) * w.cache.value_dim);
    COTERIE_CHECK(rope.dimensions >= 0 && rope.dimensions <= w.cache.key_dim && rope.dimensions % 2 == 0);
    COTERIE_CHECK(rope.dimensions == 0 || rope.frequencies != nullptr);
    w.q = view_of(q);
    w.k = view_of(k);
    w.v = view_of(v);
    w.heads = attention.heads;
    w.q_gain = q_gain;
    w.k_gain = k_gain;
    w.eps = eps;
    w.rotate = true;
    w.rotation = rotation_of(rope);
    w.store = true;
    w.step = step_.view();
    done(head_work(w, stream_.get()), "norm, rotate and store heads");
}

void CudaDevice::attend(Rows y, Rows q, const Cache& cache, int32_t layer, const Attention& attention,
                        const Step& step) {
    written(y);
    const CudaCache& c = held(cache);
    check_pages(step, c.shape);
    AttentionWork w;
    w.cache = c.layer(layer);
    COTERIE_CHECK(attention.kv_heads == w.cache.kv_heads && attention.key_dim == w.cache.key_dim &&
                  attention.value_dim == w.cache.value_dim);
    COTERIE_CHECK(attention.heads > 0 && w.cache.kv_heads > 0);
    COTERIE_CHECK(attention.group > 0 || attention.heads % w.cache.kv_heads == 0);
    COTERIE_CHECK(attention.group_offset >= 0 && attention.kv_head(attention.heads - 1) < w.cache.kv_heads);
    check_shape(q, step.rows(), int64_t(attention.heads) * w.cache.key_dim);
    check_shape(y, step.rows(), int64_t(attention.heads) * w.cache.value_dim);
    w.y = view_of(y);
    w.q = view_of(q);
    w.heads = attention.heads;
    w.group = attention.group > 0 ? attention.group : attention.heads / attention.kv_heads;
    w.group_offset = attention.group_offset;
    w.scale = attention.scale;
    w.softcap = attention.softcap;
    w.window = attention.window;
    w.sinks = attention.sinks;
    w.step = step_.view();
    w.spans = int32_t(step.spans.size());
    w.splits = attention_splits(step.rows(), attention.heads, w.group, processors_);
    const int64_t floats =
        attention_scratch_floats(step.rows(), attention.heads, w.cache.value_dim, w.splits);
    w.partial = w.y.data;
    if (floats)
        w.partial = static_cast<float*>(scratch(attention_partial_, uint64_t(floats) * 4, "attention"));
    done(cuda::attend(w, stream_.get()), "attend");
}

std::unique_ptr<States> CudaDevice::make_states(const StateShape& shape) {
    COTERIE_CHECK(shape.slots >= 0);
    for (const StateShape::Layer& l : shape.layers) {
        COTERIE_CHECK(l.taps >= 1 && l.channels >= 0 && l.value_heads >= 0 && l.key_dim >= 0 &&
                      l.value_dim >= 0);
        if (l.taps > most_taps || l.key_dim > most_delta_key_dim)
            fail(
                Status::unsupported,
                "CUDA devices take convolutions of up to {} taps and keys of up to {} numbers, not {} and {}",
                most_taps, most_delta_key_dim, l.taps, l.key_dim);
    }
    not_recorded("states");
    auto states = std::make_unique<CudaStates>(shape, options_.device);
    if (states->memory.bytes())
        done(cudaMemsetAsync(states->memory.data(), 0, states->memory.bytes(), stream_.get()),
             "clear states");
    return states;
}

void CudaDevice::clear_state(States& states, int32_t slot) {
    not_recorded("a state");
    use(options_.device);
    done(cudaMemsetAsync(held(states).slot(slot), 0, states.shape.slot_bytes(), stream_.get()),
         "clear a state");
}
void CudaDevice::copy_state(States& states, int32_t from, int32_t to) {
    not_recorded("a state");
    use(options_.device);
    done(cudaMemcpyAsync(held(states).slot(to), held(states).slot(from), states.shape.slot_bytes(),
                         cudaMemcpyDeviceToDevice, stream_.get()),
         "copy a state");
}
void CudaDevice::read_state(const States& states, int32_t slot, std::byte* to) {
    copy_out(to, held(states).slot(slot), states.shape.slot_bytes());
}
void CudaDevice::write_state(States& states, int32_t slot, const std::byte* from) {
    copy_in(held(states).slot(slot), from, states.shape.slot_bytes());
}

void CudaDevice::convolve(Rows y, Rows x, const float* taps, States& states, int32_t layer,
                          const Step& step) {
    written(y);
    const CudaStates& s = held(states);
    const StateLayer& l = s.layer(layer);
    check_slots(step, s.shape);
    check_shape(x, step.rows(), l.channels);
    check_shape(y, step.rows(), l.channels);
    COTERIE_CHECK(taps != nullptr && (x.rows == 0 || y.data != x.data));
    done(cuda::convolve(view_of(y), view_of(x), taps, l, step_.view(), int32_t(step.spans.size()),
                        stream_.get()),
         "convolve");
}

void CudaDevice::delta_gates(Rows decay, Rows beta, const float* dt, const float* a) {
    written(decay), written(beta);
    check_same_shape(decay, beta);
    COTERIE_CHECK(dt != nullptr && a != nullptr);
    done(cuda::delta_gates(view_of(decay), view_of(beta), dt, a, stream_.get()), "form gates");
}

void CudaDevice::delta_rule(Rows y, Rows q, Rows k, Rows v, Rows decay, Rows beta, States& states,
                            int32_t layer, const DeltaRule& rule, const Step& step) {
    written(y);
    const CudaStates& s = held(states);
    DeltaWork w;
    w.layer = s.layer(layer);
    check_slots(step, s.shape);
    COTERIE_CHECK(rule.value_heads == w.layer.value_heads && rule.key_dim == w.layer.key_dim &&
                  rule.value_dim == w.layer.value_dim);
    COTERIE_CHECK(rule.key_heads > 0 && rule.value_heads % rule.key_heads == 0);
    check_shape(q, step.rows(), int64_t(rule.key_heads) * rule.key_dim);
    check_shape(k, step.rows(), int64_t(rule.key_heads) * rule.key_dim);
    check_shape(v, step.rows(), int64_t(rule.value_heads) * rule.value_dim);
    check_shape(y, step.rows(), int64_t(rule.value_heads) * rule.value_dim);
    check_shape(decay, step.rows(), rule.value_heads);
    check_shape(beta, step.rows(), rule.value_heads);
    w.y = view_of(y), w.q = view_of(q), w.k = view_of(k), w.v = view_of(v);
    w.decay = view_of(decay), w.beta = view_of(beta);
    w.key_heads = rule.key_heads;
    w.tiled = rule.tiled;
    w.query_scale = rule.query_scale;
    w.step = step_.view();
    w.spans = int32_t(step.spans.size());
    bool shorter = false, longer = false;
    for (const Span& span : step.spans) (span.rows < fewest_chunked_tokens ? shorter : longer) = true;
    done(cuda::delta_rule(w, shorter, longer, stream_.get()), "apply the delta rule");
}

}  // namespace coterie::cuda
