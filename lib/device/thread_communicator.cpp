#include "device/thread_communicator.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <string>
#include <thread>

#include "base/failure.h"
#include "base/threads.h"
#include "device/checks.h"

namespace coterie {

namespace {

using Clock = std::chrono::steady_clock;

// Below this every rank adds up everything itself, which needs one meeting; above, each adds up its share,
// and the shares are exchanged at a second meeting.
constexpr int64_t floats_summed_by_all = 32768;

enum class Call : int { sum, gather };

// What a rank brings to a collective call: its arguments and a copy of its rows without gaps.
struct Contribution {
    Call call = Call::sum;
    int64_t rows = 0, width = 0;
    std::vector<float> floats;

    void grow(int64_t needed) {
        if (int64_t(floats.size()) < needed) floats.resize(size_t(needed));
    }
    void take(Rows x) {
        grow(x.rows * x.width);
        for (int64_t r = 0; r < x.rows; ++r) std::copy_n(x.row(r), x.width, floats.data() + r * x.width);
        rows = x.rows;
        width = x.width;
    }
};

// One rank's side of the meetings. Calls alternate between two contributions: when a rank starts a call,
// everyone has arrived at the last one and so has finished reading the one before.
struct alignas(64) Seat {
    std::atomic<uint64_t> arrived{0};  // meetings this rank has come to
    std::array<Contribution, 2> contributions;
};

// Rows on their way from one rank to another: one message at a time.
struct alignas(64) Letterbox {
    std::atomic<uint64_t> sent{0}, taken{0};
    Contribution content;
};

struct Room {
    Room(int ranks, std::chrono::milliseconds limit)
        : size(ranks), deadline(limit), seats(size_t(ranks)), letterboxes(size_t(ranks) * size_t(ranks)) {}
    const int size;
    const std::chrono::milliseconds deadline;
    std::vector<Seat> seats;
    std::vector<Letterbox> letterboxes;  // [from][to]

    enum Cause : int { none, aborted, late, contradiction };
    // rank * 4 + cause of the first failure; 0: none.
    std::atomic<int> failure{0};
    void end(int rank, Cause cause) noexcept {
        int nobody = 0;
        failure.compare_exchange_strong(nobody, rank * 4 + cause);
    }
};

const char* name_of(Call call) {
    return call == Call::sum ? "sums" : "gathers";
}

class ThreadCommunicator final : public Communicator {
  public:
    ThreadCommunicator(std::shared_ptr<Room> room, int rank) : room_(std::move(room)), rank_(rank) {}
    int rank() const override { return rank_; }
    int size() const override { return room_->size; }

    void all_reduce_sum(Rows x) override {
        check_rows(x);
        if (size() == 1) return;
        Contribution& mine = contribute(Call::sum, x);
        for (int other = 0; other < size(); ++other) {
            const Contribution& theirs = contribution(other);
            if (theirs.call != Call::sum || theirs.rows != x.rows || theirs.width != x.width)
                contradict(other, mine);
        }
        const int64_t total = x.rows * x.width;
        if (total <= floats_summed_by_all) {
            for (int64_t r = 0; r < x.rows; ++r) sum({r * x.width, (r + 1) * x.width}, x.row(r));
            return;
        }
        const Range share = part_of(total, rank_, size(), 16);
        sum(share, mine.floats.data() + share.begin);
        meet();
        for (int other = 0; other < size(); ++other) {
            const Range theirs = part_of(total, other, size(), 16);
            copy_out(contribution(other).floats.data(), theirs, x);
        }
    }

    void all_gather(Rows y, Rows x) override {
        check_rows(x);
        check_rows(y);
        Contribution& mine = contribute(Call::gather, x);
        int64_t width = 0;
        for (int other = 0; other < size(); ++other) {
            const Contribution& theirs = contribution(other);
            if (theirs.call != Call::gather || theirs.rows != x.rows) contradict(other, mine);
            width += theirs.width;
        }
        if (y.rows != x.rows || y.width != width) {
            room_->end(rank_, Room::contradiction);
            fail(Status::internal, "rank {} gathers {} rows of {} numbers into {} rows of {}", rank_, x.rows,
                 width, y.rows, y.width);
        }
        int64_t at = 0;
        for (int other = 0; other < size(); ++other) {
            const Contribution& theirs = contribution(other);
            for (int64_t r = 0; r < y.rows; ++r)
                std::copy_n(theirs.floats.data() + r * theirs.width, theirs.width, y.row(r) + at);
            at += theirs.width;
        }
    }

    void send(Rows x, int to) override {
        check_rows(x);
        Letterbox& box = letterbox(rank_, to);
        const uint64_t before = box.sent.load(std::memory_order_relaxed);
        wait([&] { return box.taken.load(std::memory_order_acquire) == before; },
             [&](std::string& missing) { return name(missing, to, "take what was sent before"); });
        box.content.take(x);
        box.sent.store(before + 1, std::memory_order_release);
    }

    void receive(Rows x, int from) override {
        check_rows(x);
        Letterbox& box = letterbox(from, rank_);
        const uint64_t before = box.taken.load(std::memory_order_relaxed);
        wait([&] { return box.sent.load(std::memory_order_acquire) > before; },
             [&](std::string& missing) { return name(missing, from, "send"); });
        const Contribution& content = box.content;
        if (content.rows != x.rows || content.width != x.width) {
            room_->end(rank_, Room::contradiction);
            fail(Status::internal, "rank {} waits for {} rows of {} numbers, but rank {} sent {} rows of {}",
                 rank_, x.rows, x.width, from, content.rows, content.width);
        }
        copy_out(content.floats.data(), {0, x.rows * x.width}, x);
        box.taken.store(before + 1, std::memory_order_release);
    }

    void abort() noexcept override { room_->end(rank_, Room::aborted); }

    void reserve(int64_t meeting_floats, int64_t message_floats) override {
        for (Contribution& c : room_->seats[size_t(rank_)].contributions) c.grow(meeting_floats);
        if (rank_ + 1 < size()) letterbox(rank_, rank_ + 1).content.grow(message_floats);
    }
    uint64_t staging_bytes() const override {
        uint64_t floats = 0;
        for (const Contribution& c : room_->seats[size_t(rank_)].contributions) floats += c.floats.size();
        for (int to = 0; to < size(); ++to)
            floats += room_->letterboxes[size_t(rank_) * size_t(size()) + size_t(to)].content.floats.size();
        return floats * sizeof(float);
    }

  private:
    Contribution& contribution(int rank) { return room_->seats[size_t(rank)].contributions[calls_ % 2]; }
    Letterbox& letterbox(int from, int to) {
        const int other = from == rank_ ? to : from;
        COTERIE_CHECK(other >= 0 && other < size() && other != rank_);
        return room_->letterboxes[size_t(from) * size_t(size()) + size_t(to)];
    }

    Contribution& contribute(Call call, Rows x) {
        check_alive();
        ++calls_;
        Contribution& mine = contribution(rank_);
        mine.call = call;
        mine.take(x);
        meet();
        return mine;
    }

    // Until every rank has come as often as this one.
    void meet() {
        ++meetings_;
        room_->seats[size_t(rank_)].arrived.store(meetings_, std::memory_order_release);
        const auto here = [&](const Seat& seat) {
            return seat.arrived.load(std::memory_order_acquire) >= meetings_;
        };
        wait([&] { return std::all_of(room_->seats.begin(), room_->seats.end(), here); },
             [&](std::string& missing) {
                 int first = -1;
                 for (int other = size() - 1; other >= 0; --other)
                     if (!here(room_->seats[size_t(other)])) first = other;
                 for (int other = first; other >= 0 && other < size(); ++other)
                     if (!here(room_->seats[size_t(other)]))
                         missing += fmt::format("{}{}", missing.empty() ? "" : ", ", other);
                 missing += " did not come";
                 return first;
             });
    }

    // Spins, then yields, then sleeps in short turns. who(text) names the missing ranks and returns the first
    // of them.
    template <typename Done, typename Who>
    void wait(Done done, Who who) {
        check_alive();
        const int spins = int(std::thread::hardware_concurrency()) >= size() ? 4000 : 0;
        for (int i = 0; i < spins; ++i) {
            if (done()) return;
            relax();
        }
        const Clock::time_point start = Clock::now();
        while (!done()) {
            check_alive();
            const Clock::duration waited = Clock::now() - start;
            if (waited > room_->deadline) {
                std::string missing;
                const int first = who(missing);
                if (first < 0) return;  // they came just now
                room_->end(first, Room::late);
                fail(Status::device_lost, "rank {} waited {} ms, but rank {}", rank_, room_->deadline.count(),
                     missing);
            }
            if (waited > std::chrono::milliseconds(10))
                std::this_thread::sleep_for(std::chrono::microseconds(50));
            else
                std::this_thread::yield();
        }
    }
    static int name(std::string& missing, int rank, const char* duty) {
        missing = fmt::format("{} did not {}", rank, duty);
        return rank;
    }

    void check_alive() const {
        const int failure = room_->failure.load(std::memory_order_acquire);
        if (failure == 0) return;
        const int rank = failure / 4;
        switch (failure % 4) {
            case Room::late:
                fail(Status::device_lost, "rank {} failed: it did not come within {} ms", rank,
                     room_->deadline.count());
            case Room::contradiction:
                fail(Status::device_lost, "rank {} failed: it made a call that does not match the others'",
                     rank);
            default:
                fail(Status::device_lost, "rank {} failed: it left the run", rank);
        }
    }

    [[noreturn]] void contradict(int other, const Contribution& mine) {
        const Contribution& theirs = contribution(other);
        room_->end(rank_, Room::contradiction);
        fail(Status::internal, "rank {} {} {} rows of {} numbers while rank {} {} {} rows of {}", rank_,
             name_of(mine.call), mine.rows, mine.width, other, name_of(theirs.call), theirs.rows,
             theirs.width);
    }

    // to = the ranks' floats [begin, end) added up in rank order. `to` may be this rank's own part of them.
    void sum(Range part, float* to) {
        constexpr int64_t block = 1024;
        float total[block];
        for (int64_t begin = part.begin; begin < part.end; begin += block) {
            const int64_t n = std::min(block, part.end - begin);
            std::copy_n(contribution(0).floats.data() + begin, n, total);
            for (int other = 1; other < size(); ++other) {
                const float* theirs = contribution(other).floats.data() + begin;
                for (int64_t i = 0; i < n; ++i) total[i] += theirs[i];
            }
            std::copy_n(total, n, to + (begin - part.begin));
        }
    }

    // Floats [begin, end) of rows without gaps to their places in x.
    static void copy_out(const float* from, Range part, Rows x) {
        for (int64_t i = part.begin; i < part.end;) {
            const int64_t row = i / x.width, column = i % x.width;
            const int64_t n = std::min(x.width - column, part.end - i);
            std::copy_n(from + i, n, x.row(row) + column);
            i += n;
        }
    }

    const std::shared_ptr<Room> room_;
    const int rank_;
    uint64_t calls_ = 0, meetings_ = 0;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_thread_communicators(int ranks,
                                                                     std::chrono::milliseconds deadline) {
    COTERIE_CHECK(ranks >= 1);
    const auto room = std::make_shared<Room>(ranks, deadline);
    std::vector<std::unique_ptr<Communicator>> communicators;
    for (int rank = 0; rank < ranks; ++rank)
        communicators.push_back(std::make_unique<ThreadCommunicator>(room, rank));
    return communicators;
}

}  // namespace coterie
