#include "execute/runner.h"

#include <algorithm>

#include "base/failure.h"
#include "execute/loader.h"
#include "execute/orders.h"
#include "plan/cost.h"
#include "plan/dry_device.h"

namespace coterie {

struct Runner::Rank {
    std::unique_ptr<Device> device;
    std::unique_ptr<Communicator> communicator;
    Share share;
    std::optional<NumaNode> node;
    RankWeights weights{0};
    std::unique_ptr<Cache> cache;
    std::unique_ptr<States> states;
    std::unique_ptr<Buffer> scratch, logits, best;
};

template <typename Function>
void Runner::on_all(Function&& function) {
    if (failed_)
        fail(Status::device_lost,
             "a device of this engine failed earlier; create a new engine on the devices that are left");
    if (!team_ && !crew_) return function(*ranks_[0]);
    if (!team_) {
        try {
            return function(*ranks_[0]);
        } catch (...) {
            failed_ = true;
            ranks_[0]->communicator->abort();
            throw;
        }
    }
    // The first failure is kept before the others are told to stop: what they then say is its consequence.
    team_->run([&](int member) {
        Rank& rank = *ranks_[size_t(member)];
        const NodeScope scope(rank.node ? &*rank.node : nullptr);
        try {
            function(rank);
        } catch (...) {
            {
                const std::lock_guard lock(failure_mutex_);
                if (!failure_) failure_ = std::current_exception();
                failed_ = true;
            }
            rank.communicator->abort();
        }
    });
    if (failed_) std::rethrow_exception(failure_);
}

Runner::Runner(std::shared_ptr<const Model> model, std::vector<RankPlace> places, const RunnerShape& shape,
               const ProgressCallback& progress)
    : model_(std::move(model)), shape_(shape) {
    for (const RankPlace& place : places) shares_.push_back(place.share);
    prepare(std::move(places), progress);
}

Runner::Runner(std::shared_ptr<const Model> model, RankPlace place, const RunnerShape& shape,
               std::vector<Share> shares, std::shared_ptr<Processes> crew, const ProgressCallback& progress)
    : model_(std::move(model)), shape_(shape), crew_(std::move(crew)), shares_(std::move(shares)) {
    std::vector<RankPlace> places;
    places.push_back(std::move(place));
    prepare(std::move(places), progress);
}

// Has the other processes do what this one is about to.
void Runner::announce(const Order& order) {
    if (crew_ && crew_->rank() == 0 && !failed_) crew_->give_order(pack(order));
}

void Runner::refuse_crew(const char* what) const {
    if (crew_) fail(Status::unsupported, "an engine over several processes can't {}", what);
}

void Runner::prepare(std::vector<RankPlace> places, const ProgressCallback& progress) {
    const RunnerShape& shape = shape_;
    COTERIE_CHECK(!places.empty() && shape.step_rows > 0 && shape.step_outputs > 0 && shape.page_tokens > 0);
    for (RankPlace& place : places) {
        auto rank = std::make_unique<Rank>();
        rank->device = std::move(place.device);
        rank->communicator = std::move(place.communicator);
        rank->share = std::move(place.share);
        rank->node = std::move(place.node);
        ranks_.push_back(std::move(rank));
    }
    parts_.resize(layered() ? size_t(most_micro_batches(int(shares_.size()))) : 1);
    if (ranks_.size() > 1) team_ = std::make_unique<ThreadTeam>(int(ranks_.size()));
    const Hyperparameters& h = model_->numbers();
    if (!model_->architecture().runs)
        fail(Status::unsupported, "models of architecture '{}' can be planned, but not run yet",
             h.architecture);
    on_all([&](Rank& rank) {
        CacheShape cache = cache_shape(h, rank.share);
        cache.key_type = shape_.key_type;
        cache.value_type = shape_.value_type;
        cache.page_tokens = shape_.page_tokens;
        cache.pages = shape_.pages;
        StateShape states = state_shape(h, rank.share);
        states.slots = shape_.state_slots;
        const Work work = dry_run(*model_, rank.share, cache, {shape_.step_rows, shape_.step_outputs, 0});
        // A rank may have no head of any layer.
        if (cache.page_bytes() > 0) rank.cache = rank.device->make_cache(cache);
        if (states.slot_bytes() > 0) rank.states = rank.device->make_states(states);
        rank.scratch = rank.device->allocate(work.scratch_bytes);
        rank.logits =
            rank.device->allocate(uint64_t(shape_.step_outputs) * uint64_t(h.vocabulary) * sizeof(float));
        const int64_t rows = shape_.step_rows * h.embedding,
                      vocabulary = rank.share.vocabulary.end - rank.share.vocabulary.begin;
        if (const int32_t most = rank.share.has_head ? rank.device->most_ranked() : 0)
            rank.best =
                rank.device->allocate(uint64_t(shape_.step_outputs) * uint64_t(most) * sizeof(Ranked));
        if (rank.share.sums())
            rank.communicator->reserve(std::max(rows, shape_.step_outputs * vocabulary), 0);
        else if (rank.share.ranks > 1 && !rank.share.has_head)
            rank.communicator->reserve(0, rows * std::max(h.streams, 1));
        rank.weights = load_weights(*model_, rank.share, *rank.device, shape_.context_tokens,
                                    rank_progress(rank, progress));
    });
}

// The first rank reports for all, which load side by side; the others stop when it, or anyone, has failed.
ProgressCallback Runner::rank_progress(const Rank& rank, const ProgressCallback& progress) {
    const bool first = &rank == ranks_[0].get();
    return [this, first, &progress](const char* what, uint64_t done, uint64_t total) {
        return !failed_ && (!first || !progress || progress(what, done, total));
    };
}

Runner::~Runner() {
    try {
        if (crew_ && crew_->rank() == 0) crew_->give_order(pack({}));
    } catch (const std::exception&) {  // they are gone already
    }
}

int Runner::ranks() const {
    return int(ranks_.size());
}
const Device& Runner::device(int rank) const {
    return *ranks_[size_t(rank)]->device;
}

void Runner::check(const Step& step, int64_t outputs) const {
    const int64_t rows = step.rows();
    COTERIE_CHECK(rows > 0 && rows <= shape_.step_rows && int64_t(step.outputs.size()) <= outputs);
    COTERIE_CHECK(int64_t(step.positions.size()) == rows && int64_t(step.span_of.size()) == rows);
    COTERIE_CHECK(step.page_tokens == shape_.page_tokens);
    int64_t at = 0;
    for (const Span& span : step.spans) {
        COTERIE_CHECK(span.first_row == at && span.rows > 0);
        at += span.rows;
        COTERIE_CHECK((int64_t(span.position) + span.rows + shape_.page_tokens - 1) / shape_.page_tokens <=
                      step.pages_per_sequence);
    }
    COTERIE_CHECK(at == rows);
    for (const int32_t token : step.tokens)
        if (token < 0 || token >= model_->numbers().vocabulary)
            fail(Status::invalid_argument, "token {} is not in the vocabulary of {} tokens", token,
                 model_->numbers().vocabulary);
}

// Steps that give each sequence one token come again and again in the same shape: they are recorded and
// replayed. A prompt's chunks are not, their shapes seldom return.
uint64_t Runner::replay_key(size_t part) const {
    const StepPart& p = parts_[part];
    const auto one_row = [](const Span& span) { return span.rows == 1; };
    if (!std::all_of(p.step.spans.begin(), p.step.spans.end(), one_row)) return 0;
    constexpr uint64_t most = 1 << 16;
    const uint64_t rows = uint64_t(p.step.rows()), outputs = p.step.outputs.size() + 1;
    if (rows >= most || uint64_t(p.first_output) >= most || part >= most) return 0;
    return rows << 48 | outputs << 32 | uint64_t(p.first_output) << 16 | part;
}

bool Runner::layered() const {
    return shares_.size() > 1 && !shares_[0].sums();
}

// In layer mode: while one rank computes a part, the rank before it computes the next. Rows stay in order, so
// what a row needs of earlier ones is there when it comes.
void Runner::split(const Step& step, int parts) {
    const int64_t rows = step.rows();
    part_count_ = size_t(parts);
    size_t output = 0;
    for (size_t i = 0; i < part_count_; ++i) {
        const Range mine = part_of(rows, int(i), int(part_count_));
        Step& part = parts_[i].step;
        part.page_tokens = step.page_tokens;
        part.pages_per_sequence = step.pages_per_sequence;
        part.pages = step.pages;
        part.tokens.assign(step.tokens.begin() + mine.begin, step.tokens.begin() + mine.end);
        part.positions.assign(step.positions.begin() + mine.begin, step.positions.begin() + mine.end);
        part.span_of.clear();
        part.spans.clear();
        part.outputs.clear();
        for (const Span& span : step.spans) {
            const int64_t begin = std::max<int64_t>(span.first_row, mine.begin),
                          end = std::min<int64_t>(span.first_row + span.rows, mine.end);
            if (begin >= end) continue;
            part.span_of.insert(part.span_of.end(), size_t(end - begin), int32_t(part.spans.size()));
            part.spans.push_back({span.sequence, span.state, int32_t(begin - mine.begin),
                                  int32_t(end - begin), span.position + int32_t(begin - span.first_row)});
        }
        parts_[i].first_output = int64_t(output);
        for (; output < step.outputs.size() && step.outputs[output] < mine.end; ++output)
            part.outputs.push_back(step.outputs[output] - int32_t(mine.begin));
    }
}

void Runner::step_on(Rank& rank) {
    for (size_t part = 0; part < part_count_; ++part) {
        const int64_t outputs = int64_t(parts_[part].step.outputs.size());
        rank.device->begin(parts_[part].step);
        const uint64_t key = replay_key(part);
        // What the calls refer to keeps its place for as long as the runner lives.
        if (key != 0 && rank.communicator->can_record())
            rank.device->replay(key, [this, &rank, part, outputs] { forward(rank, part, outputs); });
        else
            forward(rank, part, outputs);
        if (best_count_ > 0 && outputs > 0 && &rank == head()) {
            const int64_t first = parts_[part].first_output, vocabulary = model_->numbers().vocabulary;
            rank.device->rank(
                static_cast<Ranked*>(rank.best->data()) + first * best_count_, best_count_,
                Rows(static_cast<float*>(rank.logits->data()) + first * vocabulary, outputs, vocabulary));
        }
        rank.device->wait();
    }
}

void Runner::forward(Rank& rank, size_t part, int64_t outputs, const OutputTap* tap) {
    const Step& step = parts_[part].step;
    const int64_t vocabulary = model_->numbers().vocabulary;
    float* logits = static_cast<float*>(rank.logits->data()) + parts_[part].first_output * vocabulary;
    Scratch scratch(rank.scratch->data(), rank.scratch->bytes());
    Pass pass{*rank.device,
              *rank.communicator,
              model_->numbers(),
              rank.share,
              rank.weights,
              rank.cache.get(),
              rank.states.get(),
              scratch,
              step,
              Rows(logits, outputs, vocabulary),
              tap};
    model_->architecture().forward(pass);
}

void Runner::run(const Step& step, std::span<float> logits) {
    check(step, shape_.step_outputs);
    const size_t wanted = step.outputs.size() * size_t(model_->numbers().vocabulary);
    const bool leads = !crew_ || crew_->rank() == 0;
    COTERIE_CHECK(!leads || logits.size() >= wanted);
    best_count_ = 0;
    announce({.kind = Order::Kind::run, .step = &step});
    split(step, layered() ? micro_batches(step.rows(), int(shares_.size()), shape_.row_cost) : 1);
    on_all([&](Rank& rank) {
        step_on(rank);
        if (crew_ && layered() && wanted > 0) bring_logits(rank, step, logits);
    });
    const Rank* rank = head();
    if (rank && leads) rank->device->read(logits.data(), rank->logits->data(), wanted * sizeof(float));
}

int32_t Runner::most_best() const {
    const Rank* rank = crew_ && layered() ? nullptr : head();
    return rank && rank->best ? rank->device->most_ranked() : 0;
}

void Runner::run(const Step& step, std::span<float> logits, BestLogits& best) {
    check(step, shape_.step_outputs);
    const size_t outputs = step.outputs.size(), vocabulary = size_t(model_->numbers().vocabulary);
    COTERIE_CHECK(best.count > 0 && best.count <= most_best() && best.whole.size() == outputs);
    COTERIE_CHECK(logits.size() >= outputs * vocabulary);
    best_count_ = best.count;
    announce({.kind = Order::Kind::run, .step = &step});
    split(step, layered() ? micro_batches(step.rows(), int(shares_.size()), shape_.row_cost) : 1);
    on_all([&](Rank& rank) { step_on(rank); });
    const Rank* rank = head();
    best.ranked.resize(outputs * size_t(best.count));
    if (outputs > 0)
        rank->device->read(best.ranked.data(), rank->best->data(), best.ranked.size() * sizeof(Ranked));
    for (size_t i = 0; i < outputs; ++i)
        if (best.whole[i])
            rank->device->read(logits.data() + i * vocabulary,
                               static_cast<const float*>(rank->logits->data()) + i * vocabulary,
                               vocabulary * sizeof(float));
}

// In layer mode over processes the last one has the logits and the first one wants them.
void Runner::bring_logits(Rank& rank, const Step& step, std::span<float> logits) {
    const int64_t rows = int64_t(step.outputs.size()), width = model_->numbers().vocabulary;
    if (rank.share.rank == 0)
        rank.communicator->receive(Rows(logits.data(), rows, width), crew_->size() - 1);
    else if (rank.share.has_head)
        rank.communicator->send(Rows(static_cast<float*>(rank.logits->data()), rows, width), 0);
}

// Any rank with the head has all logits: the ranks gathered them.
const Runner::Rank* Runner::head() const {
    for (const std::unique_ptr<Rank>& rank : ranks_)
        if (rank->share.has_head) return rank.get();
    return nullptr;
}

void Runner::read(const Step& step, bool hidden, const RowReader& reader) {
    check(step, step.rows());
    if (layered()) refuse_crew("read rows in layer mode");
    announce({.kind = Order::Kind::read, .from = hidden ? 1 : 0, .step = &step});
    split(step, 1);
    const Rank* from = head();
    on_all([&](Rank& rank) {
        OutputTap tap;
        tap.hidden = hidden;
        tap.take = [&](int64_t first, Rows rows) {
            if (&rank != from) return;
            rank.device->wait();
            const size_t count = size_t(rows.rows * rows.width);
            if (read_.size() < count) read_.resize(count);
            rank.device->read(read_.data(), rows.data, count * sizeof(float));
            reader(first, {read_.data(), count});
        };
        rank.device->begin(parts_[0].step);
        forward(rank, 0, shape_.step_outputs, &tap);
        rank.device->wait();
    });
}

void Runner::copy_page(int32_t from, int32_t to) {
    announce({.kind = Order::Kind::copy_page, .from = from, .to = to});
    on_all([&](Rank& rank) {
        if (rank.cache) rank.device->copy_page(*rank.cache, from, to);
    });
}
void Runner::clear_state(int32_t slot) {
    announce({.kind = Order::Kind::clear_state, .to = slot});
    on_all([&](Rank& rank) {
        if (rank.states) rank.device->clear_state(*rank.states, slot);
    });
}
void Runner::copy_state(int32_t from, int32_t to) {
    announce({.kind = Order::Kind::copy_state, .from = from, .to = to});
    on_all([&](Rank& rank) {
        if (rank.states) rank.device->copy_state(*rank.states, from, to);
    });
}

uint64_t Runner::page_bytes() const {
    uint64_t bytes = 0;
    for (const Share& share : shares_) {
        CacheShape cache = cache_shape(model_->numbers(), share);
        cache.key_type = shape_.key_type;
        cache.value_type = shape_.value_type;
        cache.page_tokens = shape_.page_tokens;
        bytes += cache.page_bytes();
    }
    return bytes;
}
uint64_t Runner::state_bytes() const {
    uint64_t bytes = 0;
    for (const Share& share : shares_) bytes += state_shape(model_->numbers(), share).slot_bytes();
    return bytes;
}

void Runner::read_page(int32_t page, std::byte* to) {
    refuse_crew("save or restore a sequence");
    for (const auto& rank : ranks_)
        if (rank->cache) {
            rank->device->read_page(*rank->cache, page, to);
            to += rank->cache->shape.page_bytes();
        }
}
void Runner::write_page(int32_t page, const std::byte* from) {
    refuse_crew("save or restore a sequence");
    for (const auto& rank : ranks_)
        if (rank->cache) {
            rank->device->write_page(*rank->cache, page, from);
            from += rank->cache->shape.page_bytes();
        }
}
void Runner::read_state(int32_t slot, std::byte* to) {
    refuse_crew("save or restore a sequence");
    for (const auto& rank : ranks_)
        if (rank->states) {
            rank->device->read_state(*rank->states, slot, to);
            to += rank->states->shape.slot_bytes();
        }
}
void Runner::write_state(int32_t slot, const std::byte* from) {
    refuse_crew("save or restore a sequence");
    for (const auto& rank : ranks_)
        if (rank->states) {
            rank->device->write_state(*rank->states, slot, from);
            from += rank->states->shape.slot_bytes();
        }
}

std::vector<RankMemory> Runner::memory() const {
    std::vector<RankMemory> result;
    for (const auto& rank : ranks_) {
        RankMemory m;
        m.device = rank->device->name();
        m.weights = rank->weights.bytes();
        if (rank->cache) m.cache = rank->cache->shape.page_bytes() * uint64_t(rank->cache->shape.pages);
        if (rank->states) m.states = rank->states->shape.slot_bytes() * uint64_t(rank->states->shape.slots);
        m.scratch = rank->scratch->bytes() + rank->logits->bytes() + (rank->best ? rank->best->bytes() : 0);
        m.comm = rank->communicator->staging_bytes();
        result.push_back(m);
    }
    return result;
}

}  // namespace coterie
