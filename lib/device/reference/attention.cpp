// The cache of keys and values, rotary embedding and attention.
//
// A page is page_bytes() long; in it layer by layer the keys [token][kv head], then the values, each head's
// vector encoded in the cache's type on its own.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/failure.h"
#include "base/half.h"
#include "device/checks.h"
#include "device/reference/reference_device.h"

namespace coterie {

namespace {

// n floats to bytes of a cache type: what storing means.
void encode(Type type, const float* x, int64_t n, std::byte* to) {
    if (type == Type::F32) {
        std::memcpy(to, x, size_t(n) * sizeof(float));
    } else if (type == Type::F16) {
        for (int64_t i = 0; i < n; ++i) {
            const uint16_t bits = float_to_half(x[i]);
            std::memcpy(to + 2 * i, &bits, 2);
        }
    } else {  // Q8_0: d = max |x| / 127 as a half, then 32 rounded multiples of it
        for (int64_t b = 0; b < n / 32; ++b, x += 32, to += 34) {
            float most = 0;
            for (int i = 0; i < 32; ++i) most = std::max(most, std::fabs(x[i]));
            const float d = most / 127.0f;
            const uint16_t bits = float_to_half(d);
            std::memcpy(to, &bits, 2);
            for (int i = 0; i < 32; ++i) {
                const double q = d > 0 ? std::round(double(x[i]) / double(d)) : 0.0;
                to[2 + i] = std::byte(int8_t(std::clamp(q, -127.0, 127.0)));
            }
        }
    }
}

void decode(Type type, const std::byte* from, int64_t n, double* x) {
    const auto half = [](const std::byte* at) {
        uint16_t bits;
        std::memcpy(&bits, at, 2);
        return double(half_to_float(bits));
    };
    if (type == Type::F32) {
        for (int64_t i = 0; i < n; ++i) {
            float value;
            std::memcpy(&value, from + 4 * i, 4);
            x[i] = double(value);
        }
    } else if (type == Type::F16) {
        for (int64_t i = 0; i < n; ++i) x[i] = half(from + 2 * i);
    } else {
        for (int64_t b = 0; b < n / 32; ++b, x += 32, from += 34)
            for (int i = 0; i < 32; ++i) x[i] = half(from) * double(int8_t(from[2 + i]));
    }
}

class ReferenceCache final : public Cache {
  public:
    explicit ReferenceCache(const CacheShape& of) : Cache(of), bytes(of.page_bytes() * uint64_t(of.pages)) {
        int64_t at = 0;
        for (const CacheShape::Layer& l : shape.layers) {
            Place place;
            place.key_bytes = int64_t(row_bytes(shape.key_type, uint64_t(l.key_dim)));
            place.value_bytes = int64_t(row_bytes(shape.value_type, uint64_t(l.value_dim)));
            place.keys = at;
            place.values = at + int64_t(shape.page_tokens) * l.kv_heads * place.key_bytes;
            at = place.values + int64_t(shape.page_tokens) * l.kv_heads * place.value_bytes;
            places_.push_back(place);
        }
        page_bytes_ = at;
    }
    std::vector<std::byte> bytes;

    std::byte* page(int32_t number) {
        COTERIE_CHECK(number >= 0 && number < shape.pages);
        return bytes.data() + number * page_bytes_;
    }
    const CacheShape::Layer& layer(int32_t index) const {
        COTERIE_CHECK(index >= 0 && size_t(index) < shape.layers.size());
        return shape.layers[size_t(index)];
    }
    std::byte* key(int32_t index, int64_t place, int64_t head) {
        const Place& p = places_[size_t(index)];
        return page(int32_t(place / shape.page_tokens)) + p.keys + row(index, place, head) * p.key_bytes;
    }
    std::byte* value(int32_t index, int64_t place, int64_t head) {
        const Place& p = places_[size_t(index)];
        return page(int32_t(place / shape.page_tokens)) + p.values + row(index, place, head) * p.value_bytes;
    }

  private:
    // Of a layer in a page: where its keys and values begin, and the bytes of one head's vector.
    struct Place {
        int64_t keys = 0, values = 0, key_bytes = 0, value_bytes = 0;
    };
    std::vector<Place> places_;
    int64_t page_bytes_ = 0;
    int64_t row(int32_t index, int64_t place, int64_t head) const {
        return place % shape.page_tokens * layer(index).kv_heads + head;
    }
};

ReferenceCache& held(Cache& cache) {
    auto* reference = dynamic_cast<ReferenceCache*>(&cache);
    COTERIE_CHECK(reference != nullptr);
    return *reference;
}
// Reading changes nothing; the const is dropped so that one set of addresses serves both.
ReferenceCache& held(const Cache& cache) {
    return held(const_cast<Cache&>(cache));
}

}  // namespace

std::unique_ptr<Cache> ReferenceDevice::make_cache(const CacheShape& shape) {
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
    try {
        return std::make_unique<ReferenceCache>(shape);
    } catch (const std::exception&) {
        fail(Status::out_of_memory, "the host has no memory for {} pages of {} bytes; ask for less context",
             shape.pages, shape.page_bytes());
    }
}

void ReferenceDevice::copy_page(Cache& cache, int32_t from, int32_t to) {
    ReferenceCache& c = held(cache);
    std::memmove(c.page(to), c.page(from), c.shape.page_bytes());
}
void ReferenceDevice::read_page(const Cache& cache, int32_t page, std::byte* to) {
    std::memcpy(to, held(cache).page(page), cache.shape.page_bytes());
}
void ReferenceDevice::write_page(Cache& cache, int32_t page, const std::byte* from) {
    std::memcpy(held(cache).page(page), from, cache.shape.page_bytes());
}

void ReferenceDevice::rope(Rows x, int32_t heads, const Rope& rope, const Step& step) {
    check_step(step);
    COTERIE_CHECK(heads > 0 && x.width % heads == 0);
    check_shape(x, step.rows(), x.width);
    const int64_t dim = x.width / heads;
    COTERIE_CHECK(rope.dimensions >= 0 && rope.dimensions <= dim && rope.dimensions % 2 == 0);
    COTERIE_CHECK(rope.dimensions == 0 || rope.frequencies != nullptr);
    const int64_t half = rope.dimensions / 2;
    for (int64_t r = 0; r < x.rows; ++r)
        for (int64_t h = 0; h < heads; ++h)
            for (int64_t i = 0; i < half; ++i) {
                const bool adjacent = rope.pairs == Rope::Pairs::adjacent;
                float& first = x.row(r)[h * dim + (adjacent ? 2 * i : i)];
                float& second = x.row(r)[h * dim + (adjacent ? 2 * i + 1 : i + half)];
                const double angle = double(step.positions[size_t(r)]) * double(rope.frequencies[i]);
                const double c = std::cos(angle) * double(rope.magnitude);
                const double s = std::sin(angle) * double(rope.magnitude);
                const double a = double(first), b = double(second);
                first = float(a * c - b * s);
                second = float(a * s + b * c);
            }
}

void ReferenceDevice::store_kv(Cache& cache, int32_t layer, Rows k, Rows v, const Step& step) {
    ReferenceCache& c = held(cache);
    const CacheShape::Layer& l = c.layer(layer);
    check_step(step);
    check_pages(step, c.shape);
    check_shape(k, step.rows(), int64_t(l.kv_heads) * l.key_dim);
    check_shape(v, step.rows(), int64_t(l.kv_heads) * l.value_dim);
    for (const Span& span : step.spans)
        for (int64_t r = span.first_row; r < span.first_row + span.rows; ++r) {
            const int64_t place = place_of(step, step.pages_of(span), step.positions[size_t(r)]);
            for (int64_t h = 0; h < l.kv_heads; ++h) {
                encode(c.shape.key_type, k.row(r) + h * l.key_dim, l.key_dim, c.key(layer, place, h));
                encode(c.shape.value_type, v.row(r) + h * l.value_dim, l.value_dim, c.value(layer, place, h));
            }
        }
}

void ReferenceDevice::attend(Rows y, Rows q, const Cache& cache, int32_t layer, const Attention& attention,
                             const Step& step) {
    ReferenceCache& c = held(cache);
    const CacheShape::Layer& l = c.layer(layer);
    check_step(step);
    check_pages(step, c.shape);
    COTERIE_CHECK(attention.kv_heads == l.kv_heads && attention.key_dim == l.key_dim &&
                  attention.value_dim == l.value_dim);
    COTERIE_CHECK(attention.heads > 0 && l.kv_heads > 0);
    COTERIE_CHECK(attention.group > 0 || attention.heads % l.kv_heads == 0);
    COTERIE_CHECK(attention.group_offset >= 0 && attention.kv_head(attention.heads - 1) < l.kv_heads);
    check_shape(q, step.rows(), int64_t(attention.heads) * l.key_dim);
    check_shape(y, step.rows(), int64_t(attention.heads) * l.value_dim);
    std::vector<double> scores, vector(size_t(std::max(l.key_dim, l.value_dim))), out;
    for (int64_t r = 0; r < q.rows; ++r)
        for (int32_t h = 0; h < attention.heads; ++h) {
            const int32_t kv_head = attention.kv_head(h);
            const Span& span = step.spans[size_t(step.span_of[size_t(r)])];
            const int32_t* pages = step.pages_of(span);
            const int64_t last = step.positions[size_t(r)];
            const int64_t first =
                attention.window > 0 ? std::max<int64_t>(0, last - attention.window + 1) : 0;
            scores.clear();
            for (int64_t p = first; p <= last; ++p) {
                decode(c.shape.key_type, c.key(layer, place_of(step, pages, p), kv_head), l.key_dim,
                       vector.data());
                double score = 0;
                for (int64_t i = 0; i < l.key_dim; ++i)
                    score += double(q.row(r)[h * l.key_dim + i]) * vector[size_t(i)];
                score *= double(attention.scale);
                if (attention.softcap > 0)
                    score = double(attention.softcap) * std::tanh(score / double(attention.softcap));
                scores.push_back(score);
            }
            double most = *std::max_element(scores.begin(), scores.end());
            if (attention.sinks) most = std::max(most, double(attention.sinks[h]));
            double sum = attention.sinks ? std::exp(double(attention.sinks[h]) - most) : 0.0;
            out.assign(size_t(l.value_dim), 0.0);
            for (int64_t p = first; p <= last; ++p) {
                const double weight = std::exp(scores[size_t(p - first)] - most);
                sum += weight;
                decode(c.shape.value_type, c.value(layer, place_of(step, pages, p), kv_head), l.value_dim,
                       vector.data());
                for (int64_t i = 0; i < l.value_dim; ++i) out[size_t(i)] += weight * vector[size_t(i)];
            }
            for (int64_t i = 0; i < l.value_dim; ++i)
                y.row(r)[h * l.value_dim + i] = float(out[size_t(i)] / sum);
        }
}

}  // namespace coterie
