// The cache of keys and values, rotary embedding and attention.
//
// A page is page_bytes() long; in it layer by layer the keys, then the values. Values are [head][token][dim].
// Keys are [head][token / 16][dim][16 tokens], so that 16 scores are one vector and need no sum across it
// (Q8_0: per 32 dimensions the 16 scales, then [32][16] quants); with pages of no multiple of 16 tokens they
// are as values.
//
// Attention goes over tiles of 32 tokens: keys and values are converted to F32 once per tile for a block of
// queries that share the kv head (all heads of its group, several rows of a sequence), with a running maximum
// and sum per query. When there are fewer blocks than threads want, the tokens are split too and the parts
// joined at the end. Few queries take keys and values as they lie, in tiles of up to 64 tokens of a page.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/failure.h"
#include "base/half.h"
#include "device/checks.h"
#include "device/cpu/cpu_device.h"
#include "device/cpu/rotation.h"

namespace coterie {

namespace {

constexpr int lanes = 16, tile_tokens = 32, few_tokens = 64;
constexpr float lowest = -std::numeric_limits<float>::infinity();

class CpuCache final : public Cache {
  public:
    explicit CpuCache(const CacheShape& of)
        : Cache(of),
          memory(of.page_bytes() * uint64_t(of.pages), "the cache of keys and values; ask for less context"),
          page_bytes(of.page_bytes()),
          by_lanes(of.page_tokens % lanes == 0) {
        uint64_t at = 0;
        for (const CacheShape::Layer& l : of.layers) {
            offsets.push_back(at);
            at += uint64_t(of.page_tokens) * uint64_t(l.kv_heads) * (key_bytes(l) + value_bytes(l));
        }
    }
    cpu::HostMemory memory;
    const uint64_t page_bytes;
    const bool by_lanes;
    std::vector<uint64_t> offsets;

    uint64_t key_bytes(const CacheShape::Layer& l) const {
        return row_bytes(shape.key_type, uint64_t(l.key_dim));
    }
    uint64_t value_bytes(const CacheShape::Layer& l) const {
        return row_bytes(shape.value_type, uint64_t(l.value_dim));
    }
    std::byte* page(int32_t number) const {
        COTERIE_CHECK(number >= 0 && number < shape.pages);
        return memory.data() + uint64_t(number) * page_bytes;
    }
    const CacheShape::Layer& layer(int32_t index) const {
        COTERIE_CHECK(index >= 0 && size_t(index) < shape.layers.size());
        return shape.layers[size_t(index)];
    }
    // Keys and values of a head in a page.
    std::byte* keys(int32_t index, int32_t number, int64_t head) const {
        const CacheShape::Layer& l = shape.layers[size_t(index)];
        return page(number) + offsets[size_t(index)] + uint64_t(head * shape.page_tokens) * key_bytes(l);
    }
    std::byte* values(int32_t index, int32_t number, int64_t head) const {
        const CacheShape::Layer& l = shape.layers[size_t(index)];
        return page(number) + offsets[size_t(index)] +
               uint64_t(l.kv_heads * shape.page_tokens) * key_bytes(l) +
               uint64_t(head * shape.page_tokens) * value_bytes(l);
    }
};

CpuCache& held(const Cache& cache) {
    auto* mine = dynamic_cast<CpuCache*>(const_cast<Cache*>(&cache));
    COTERIE_CHECK(mine != nullptr);
    return *mine;
}

// A vector of n in a cache's type, contiguous.
void encode(const cpu::Elements& elements, Type type, const float* x, int64_t n, std::byte* to) {
    if (type == Type::F32) {
        std::memcpy(to, x, size_t(n) * sizeof(float));
    } else if (type == Type::F16) {
        elements.to_half(reinterpret_cast<uint16_t*>(to), x, n);
    } else {
        for (int64_t b = 0; b < n / 32; ++b, x += 32, to += 34) {
            float most = 0;
            for (int i = 0; i < 32; ++i) most = std::max(most, std::fabs(x[i]));
            const float d = most / 127.0f, inverse = d > 1e-36f ? 1.0f / d : 0.0f;
            const uint16_t bits = float_to_half(d);
            std::memcpy(to, &bits, 2);
            for (int i = 0; i < 32; ++i)
                to[2 + i] =
                    std::byte(int8_t(std::lround(std::min(127.0f, std::max(-127.0f, x[i] * inverse)))));
        }
    }
}

void decode(const cpu::Elements& elements, Type type, const std::byte* from, int64_t n, float* to) {
    if (type == Type::F32)
        std::memcpy(to, from, size_t(n) * sizeof(float));
    else if (type == Type::F16)
        elements.from_half(to, reinterpret_cast<const uint16_t*>(from), n);
    else
        elements.from_blocks8(to, reinterpret_cast<const uint8_t*>(from), n);
}

cpu::CacheType cache_type(Type type) {
    return type == Type::F32   ? cpu::CacheType::f32
           : type == Type::F16 ? cpu::CacheType::f16
                               : cpu::CacheType::q8_0;
}

// Spreads an encoded key over the lane of its token.
void store_lane(Type type, const std::byte* key, int64_t dim, std::byte* block, int lane) {
    const size_t size = type == Type::F32 ? 4 : 2;
    if (type != Type::Q8_0) {
        for (int64_t d = 0; d < dim; ++d)
            std::memcpy(block + size_t(d * lanes + lane) * size, key + size_t(d) * size, size);
        return;
    }
    for (int64_t b = 0; b < dim / 32; ++b, key += 34, block += 34 * lanes) {
        std::memcpy(block + 2 * lane, key, 2);
        for (int i = 0; i < 32; ++i) block[2 * lanes + i * lanes + lane] = key[2 + i];
    }
}

}  // namespace

std::unique_ptr<Cache> CpuDevice::make_cache(const CacheShape& shape) {
    COTERIE_CHECK(shape.page_tokens > 0 && shape.pages >= 0);
    for (Type type : {shape.key_type, shape.value_type})
        if (type != Type::F32 && type != Type::F16 && type != Type::Q8_0)
            fail(Status::unsupported, "keys and values can be F32, F16 or Q8_0, not {}", type_name(type));
    for (const CacheShape::Layer& layer : shape.layers) {
        COTERIE_CHECK(layer.kv_heads >= 0 && layer.key_dim >= 0 && layer.value_dim >= 0);
        if ((shape.key_type == Type::Q8_0 && layer.key_dim % 32) ||
            (shape.value_type == Type::Q8_0 && layer.value_dim % 32))
            fail(Status::unsupported,
                 "Q8_0 needs keys and values of a multiple of 32 numbers, not {} and {}; use F16",
                 layer.key_dim, layer.value_dim);
    }
    return std::make_unique<CpuCache>(shape);
}
void CpuDevice::copy_page(Cache& cache, int32_t from, int32_t to) {
    std::memmove(held(cache).page(to), held(cache).page(from), held(cache).page_bytes);
}
void CpuDevice::read_page(const Cache& cache, int32_t page, std::byte* to) {
    std::memcpy(to, held(cache).page(page), held(cache).page_bytes);
}
void CpuDevice::write_page(Cache& cache, int32_t page, const std::byte* from) {
    std::memcpy(held(cache).page(page), from, held(cache).page_bytes);
}

const CpuDevice::Rotation& CpuDevice::rotation(const Rope& rope, const Step& step) {
    const size_t half = size_t(rope.dimensions / 2);
    for (const auto& known : rotations_)
        if (known->magnitude == rope.magnitude && known->positions == step.positions &&
            known->frequencies.size() == half &&
            std::equal(known->frequencies.begin(), known->frequencies.end(), rope.frequencies))
            return *known;
    // Two kinds of layers at most rotate differently; the older of two tables is replaced.
    if (rotations_.size() < 2)
        rotations_.insert(rotations_.begin(), std::make_unique<Rotation>());
    else
        std::swap(rotations_[0], rotations_[1]);
    Rotation& r = *rotations_[0];
    r.positions = step.positions;
    r.frequencies.assign(rope.frequencies, rope.frequencies + half);
    r.magnitude = rope.magnitude;
    r.cosine.resize(step.positions.size() * half);
    r.sine.resize(step.positions.size() * half);
    for_rows(step.rows(), 64 * int64_t(half), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
            for (size_t j = 0; j < half; ++j) {
                const double angle = double(step.positions[size_t(i)]) * double(rope.frequencies[j]);
                r.cosine[size_t(i) * half + j] = float(std::cos(angle) * double(rope.magnitude));
                r.sine[size_t(i) * half + j] = float(std::sin(angle) * double(rope.magnitude));
            }
    });
    return r;
}

void CpuDevice::rope(Rows x, int32_t heads, const Rope& rope, const Step& step) {
    COTERIE_CHECK(heads > 0 && x.width % heads == 0);
    check_shape(x, step.rows(), x.width);
    const int64_t dim = x.width / heads, half = rope.dimensions / 2;
    COTERIE_CHECK(rope.dimensions >= 0 && rope.dimensions <= dim && rope.dimensions % 2 == 0);
    COTERIE_CHECK(rope.dimensions == 0 || rope.frequencies != nullptr);
    if (rope.dimensions == 0) return;
    const Rotation& r = rotation(rope, step);
    for_rows(x.rows, x.width, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
            for (int32_t h = 0; h < heads; ++h)
                elements_.rotate(x.row(i) + h * dim, r.cosine.data() + i * half, r.sine.data() + i * half,
                                 half, rope.pairs == Rope::Pairs::adjacent);
    });
}

void CpuDevice::store_kv(Cache& cache, int32_t layer, Rows k, Rows v, const Step& step) {
    CpuCache& c = held(cache);
    const CacheShape::Layer& l = c.layer(layer);
    check_pages(step, c.shape);
    check_shape(k, step.rows(), int64_t(l.kv_heads) * l.key_dim);
    check_shape(v, step.rows(), int64_t(l.kv_heads) * l.value_dim);
    const uint64_t key_bytes = c.key_bytes(l), value_bytes = c.value_bytes(l);
    const int32_t tokens = c.shape.page_tokens;
    COTERIE_CHECK(key_bytes <= 16384);
    for_rows(step.rows(), 4 * (k.width + v.width), [&](int64_t begin, int64_t end) {
        alignas(64) std::byte key[16384];
        for (int64_t r = begin; r < end; ++r) {
            const Span& span = step.spans[size_t(step.span_of[size_t(r)])];
            const int32_t position = step.positions[size_t(r)], at = position % tokens;
            const int32_t page = step.pages_of(span)[position / tokens];
            for (int64_t h = 0; h < l.kv_heads; ++h) {
                std::byte* keys = c.keys(layer, page, h);
                if (c.by_lanes) {
                    encode(elements_, c.shape.key_type, k.row(r) + h * l.key_dim, l.key_dim, key);
                    store_lane(c.shape.key_type, key, l.key_dim,
                               keys + uint64_t(at / lanes) * lanes * key_bytes, at % lanes);
                } else {
                    encode(elements_, c.shape.key_type, k.row(r) + h * l.key_dim, l.key_dim,
                           keys + uint64_t(at) * key_bytes);
                }
                encode(elements_, c.shape.value_type, v.row(r) + h * l.value_dim, l.value_dim,
                       c.values(layer, page, h) + uint64_t(at) * value_bytes);
            }
        }
    });
}

namespace {

// Queries that meet the same keys: `heads` heads of kv head `kv_head`, from `head` on, of `rows` rows of a
// span.
struct Block {
    const Span* span;
    int32_t kv_head, head, heads, row, rows;
};

struct Worker {
    const cpu::Elements& elements;
    const CpuCache& cache;
    const CacheShape::Layer& l;
    int32_t layer;
    const Attention& attention;
    const Step& step;
    // Scratch of one thread.
    float *keys, *values, *scores, *queries;

    static int64_t floats(const CacheShape::Layer& l, int64_t queries) {
        return int64_t(tile_tokens) * (l.key_dim + l.value_dim) + queries * (few_tokens + l.key_dim) +
               l.key_dim + 64;
    }

    // Keys (of a token whose number is a multiple of 16, where keys lie by lanes) and values as they lie.
    const std::byte* keys_at(const Block& b, int64_t token) const {
        const int32_t per_page = cache.shape.page_tokens;
        return cache.keys(layer, step.pages_of(*b.span)[token / per_page], b.kv_head) +
               uint64_t(token % per_page) * cache.key_bytes(l);
    }
    const std::byte* values_at(const Block& b, int64_t token) const {
        const int32_t per_page = cache.shape.page_tokens;
        return cache.values(layer, step.pages_of(*b.span)[token / per_page], b.kv_head) +
               uint64_t(token % per_page) * cache.value_bytes(l);
    }
    // Tokens [first, first + tile_tokens) of the sequence, of which those below `end` exist, as F32.
    void load(const Block& b, int64_t first, int64_t end) const {
        const Type key_type = cache.shape.key_type;
        const int64_t count = std::min<int64_t>(tile_tokens, end - first);
        if (cache.by_lanes) {
            for (int64_t t = 0; t < count; t += lanes) {
                const std::byte* from = keys_at(b, first + t);
                float* to = keys + t * l.key_dim;
                if (key_type == Type::Q8_0)
                    elements.from_lanes8(to, reinterpret_cast<const uint8_t*>(from), l.key_dim);
                else
                    decode(elements, key_type, from, int64_t(l.key_dim) * lanes, to);
            }
        } else {
            float* key = scores;  // free at this point, and at least as long
            for (int64_t t = 0; t < count; ++t) {
                decode(elements, key_type, keys_at(b, first + t), l.key_dim, key);
                float* to = keys + t / lanes * lanes * l.key_dim + t % lanes;
                for (int64_t d = 0; d < l.key_dim; ++d) to[d * lanes] = key[d];
            }
        }
        const int32_t per_page = cache.shape.page_tokens;
        for (int64_t t = 0; t < count;) {
            const int64_t n = std::min(count - t, per_page - (first + t) % per_page);
            decode(elements, cache.shape.value_type, values_at(b, first + t), n * l.value_dim,
                   values + t * l.value_dim);
            t += n;
        }
    }

    // Asks for `bytes` that are needed soon: the hardware's own prefetch stops at every 4 KiB.
    static void prefetch(const std::byte* from, uint64_t bytes) {
        for (uint64_t line = 0; line < bytes; line += 64) __builtin_prefetch(from + line, 0, 2);
    }

    // Adds tokens [begin, end) to the sums `out` [queries][value_dim], maxima and totals of the block's
    // queries.
    void add(const Block& b, Rows q, int64_t begin, int64_t end, float* out, float* most,
             float* total) const {
        const int queries_count = b.rows * b.heads;
        for (int32_t r = 0; r < b.rows; ++r)
            for (int32_t h = 0; h < b.heads; ++h)
                elements.scale(queries + (r * b.heads + h) * l.key_dim,
                               q.row(b.row + r) + (b.head + h) * l.key_dim, attention.scale, nullptr,
                               l.key_dim);
        const int64_t position = step.positions[size_t(b.row)];
        if (attention.window > 0) begin = std::max(begin, position - attention.window + 1);
        begin = begin / tile_tokens * tile_tokens;
        const bool few = cache.by_lanes && queries_count <= cpu::few_queries;
        const int stride = few ? few_tokens : tile_tokens;
        const cpu::CacheType key_type = few ? cache_type(cache.shape.key_type) : cpu::CacheType::f32,
                             value_type = few ? cache_type(cache.shape.value_type) : cpu::CacheType::f32;
        const auto tile = [](const float* floats) { return reinterpret_cast<const std::byte*>(floats); };
        const int32_t per_page = cache.shape.page_tokens;
        int count = 0;
        for (int64_t first = begin; first < end; first += count) {
            count = int(std::min<int64_t>(stride, end - first));
            if (few) count = std::min(count, int(per_page - first % per_page));
            const int padded = (count + lanes - 1) / lanes * lanes;
            const int64_t next = first + count;
            if (!few)
                load(b, first, end);
            else if (next < end)
                prefetch(keys_at(b, next), cache.key_bytes(l) * few_tokens);
            elements.scores(queries, queries_count, key_type, few ? keys_at(b, first) : tile(keys), l.key_dim,
                            padded / lanes, scores, stride);
            for (int i = 0; i < queries_count; ++i) {
                float* s = scores + i * stride;
                const int64_t own = position + i / b.heads;
                const int visible = int(std::clamp<int64_t>(own + 1 - first, 0, count));
                const int from =
                    attention.window > 0
                        ? int(std::clamp<int64_t>(own - attention.window + 1 - first, 0, visible))
                        : 0;
                if (attention.softcap > 0) elements.softcap(s, attention.softcap, visible);
                std::fill(s, s + from, lowest);
                std::fill(s + visible, s + padded, lowest);
                if (from >= visible) {
                    std::fill(s, s + padded, 0.0f);
                    continue;
                }
                const float largest = std::max(most[i], elements.largest(s, padded));
                if (largest > most[i]) {
                    if (total[i] > 0) {
                        const float factor = std::exp(most[i] - largest);
                        total[i] *= factor;
                        elements.scale(out + i * l.value_dim, out + i * l.value_dim, factor, nullptr,
                                       l.value_dim);
                    }
                    most[i] = largest;
                }
                total[i] += elements.exponentials(s, most[i], padded);
            }
            if (few && next < end) prefetch(values_at(b, next), cache.value_bytes(l) * few_tokens);
            elements.values(scores, stride, queries_count, value_type,
                            few ? values_at(b, first) : tile(values), count, l.value_dim, out);
        }
    }
};

}  // namespace

void CpuDevice::attend(Rows y, Rows q, const Cache& cache, int32_t layer, const Attention& attention,
                       const Step& step) {
    const CpuCache& c = held(cache);
    const CacheShape::Layer& l = c.layer(layer);
    check_pages(step, c.shape);
    COTERIE_CHECK(attention.kv_heads == l.kv_heads && attention.key_dim == l.key_dim &&
                  attention.value_dim == l.value_dim);
    COTERIE_CHECK(attention.heads > 0 && l.kv_heads > 0);
    COTERIE_CHECK(attention.group > 0 || attention.heads % l.kv_heads == 0);
    COTERIE_CHECK(attention.group_offset >= 0 && attention.kv_head(attention.heads - 1) < l.kv_heads);
    check_shape(q, step.rows(), int64_t(attention.heads) * l.key_dim);
    check_shape(y, step.rows(), int64_t(attention.heads) * l.value_dim);
    if (step.rows() == 0) return;

    // Blocks of some 32 queries; counted first, then found again from their number by each task.
    const int32_t group = attention.group > 0 ? attention.group : attention.heads / attention.kv_heads;
    const int32_t block_heads = std::min(group, 32), block_rows = std::max(1, 32 / block_heads);
    std::vector<HeadPart>& parts = head_parts_;
    parts.clear();
    for (int32_t h = 0; h < attention.heads;) {
        const int32_t kv = attention.kv_head(h);
        int32_t n = 1;
        while (n < block_heads && h + n < attention.heads && attention.kv_head(h + n) == kv) ++n;
        parts.push_back({kv, h, n});
        h += n;
    }
    int64_t blocks = 0, longest = 0;
    for (const Span& span : step.spans) {
        blocks += (span.rows + block_rows - 1) / block_rows;
        longest = std::max<int64_t>(longest, span.position + span.rows);
    }
    const int64_t tasks = blocks * int64_t(parts.size());
    const auto block_of = [&](int64_t task) {
        const HeadPart& heads = parts[size_t(task % int64_t(parts.size()))];
        int64_t at = task / int64_t(parts.size());
        // The last blocks see the most tokens: they go first.
        for (size_t i = step.spans.size(); i-- > 0;) {
            const Span& span = step.spans[i];
            const int64_t n = (span.rows + block_rows - 1) / block_rows;
            if (at < n) {
                const int32_t first = int32_t(n - 1 - at) * block_rows;
                return Block{&span,       heads.kv_head,          heads.head,
                             heads.heads, span.first_row + first, std::min(block_rows, span.rows - first)};
            }
            at -= n;
        }
        fail(Status::internal, "attention has no block {}", task);
    };

    const int64_t most_queries = int64_t(block_heads) * block_rows;
    // Per part of a task: sums, maxima, totals.
    const int64_t part_floats = most_queries * (l.value_dim + 2);
    int64_t splits = 1;
    if (tasks < 4 * team_.size() && longest >= 1024)
        splits = std::clamp<int64_t>(std::min(longest / 512, (4 * team_.size() + tasks - 1) / tasks), 1, 64);
    const int64_t scratch_floats = Worker::floats(l, most_queries) + part_floats + l.key_dim;
    for (auto& own : thread_scratch_)
        if (int64_t(own.size()) < scratch_floats) own.resize(size_t(scratch_floats));
    if (splits > 1 && int64_t(shared_scratch_.size()) < tasks * splits * part_floats)
        shared_scratch_.resize(size_t(tasks * splits * part_floats));

    // y of a block's queries from sums, maxima and totals.
    const auto finish = [&](const Block& b, float* out, const float* most, float* total) {
        for (int i = 0; i < b.rows * b.heads; ++i) {
            const int32_t head = b.head + i % b.heads;
            float factor = 1.0f, sum = total[i];
            if (attention.sinks) {
                const float largest = std::max(most[i], attention.sinks[head]);
                factor = std::exp(most[i] - largest);
                sum = sum * factor + std::exp(attention.sinks[head] - largest);
            }
            elements_.scale(y.row(b.row + i / b.heads) + head * l.value_dim, out + i * l.value_dim,
                            factor / sum, nullptr, l.value_dim);
        }
    };
    const auto clear = [&](float* out) {
        std::fill_n(out, most_queries * l.value_dim, 0.0f);
        std::fill_n(out + most_queries * l.value_dim, most_queries, lowest);
        std::fill_n(out + most_queries * (l.value_dim + 1), most_queries, 0.0f);
    };

    for_tasks(tasks * splits, [&](int64_t task, int member) {
        const Block b = block_of(task / splits);
        float* at = thread_scratch_[size_t(member)].data();
        at += (64 - reinterpret_cast<uintptr_t>(at) % 64) % 64 / sizeof(float);
        Worker w{elements_, c, l, layer, attention, step, nullptr, nullptr, nullptr, nullptr};
        w.keys = at;
        w.values = w.keys + tile_tokens * l.key_dim;
        w.scores = w.values + tile_tokens * l.value_dim;
        w.queries = w.scores + std::max<int64_t>(most_queries * few_tokens, l.key_dim);
        float* out =
            splits > 1 ? shared_scratch_.data() + task * part_floats : w.queries + most_queries * l.key_dim;
        clear(out);
        const int64_t end = step.positions[size_t(b.row + b.rows - 1)] + 1;
        const Range tokens = part_of(end, int(task % splits), int(splits), tile_tokens);
        float *most = out + most_queries * l.value_dim, *total = most + most_queries;
        if (tokens.begin < tokens.end) w.add(b, q, tokens.begin, tokens.end, out, most, total);
        if (splits == 1) finish(b, out, most, total);
    });
    if (splits == 1) return;
    for_tasks(tasks, [&](int64_t task, int) {
        const Block b = block_of(task);
        float* out = shared_scratch_.data() + task * splits * part_floats;
        float *most = out + most_queries * l.value_dim, *total = most + most_queries;
        for (int64_t s = 1; s < splits; ++s) {
            const float* other = out + s * part_floats;
            const float *other_most = other + most_queries * l.value_dim,
                        *other_total = other_most + most_queries;
            for (int i = 0; i < b.rows * b.heads; ++i) {
                if (other_total[i] == 0) continue;
                const float largest = std::max(most[i], other_most[i]);
                const float weights[2] = {total[i] > 0 ? std::exp(most[i] - largest) : 0.0f,
                                          std::exp(other_most[i] - largest)};
                const float* both[2] = {out + i * l.value_dim, other + i * l.value_dim};
                elements_.weighted_sum(out + i * l.value_dim, both, weights, 2, l.value_dim);
                total[i] = total[i] * weights[0] + other_total[i] * weights[1];
                most[i] = largest;
            }
        }
        finish(b, out, most, total);
    });
}

}  // namespace coterie
