// Processes over MPI. Everything is sent without blocking and waited for in turns, so that a wait also ends
// when another rank failed (it sends word of that) or the deadline passed. Sums are taken in rank order, each
// rank adding up its part of the numbers and sending it round, so staging is twice the numbers of a sum. This
// file is a plug-in of its own, libcoterie_mpi.so.
#define OMPI_SKIP_MPICXX 1
#include "device/processes.h"

#include <mpi.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "base/failure.h"
#include "base/threads.h"
#include "device/checks.h"

namespace coterie {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int tag_data = 1, tag_failure = 2, tag_order = 3;
constexpr std::chrono::seconds together_deadline(120);

void check(int error, const char* what) {
    if (error == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING] = {};
    int length = 0;
    MPI_Error_string(error, text, &length);
    fail(Status::device_lost, "MPI could not {}: {}", what, text);
}

// Spins, yields, then sleeps in short turns.
class Patience {
  public:
    void wait() {
        ++turns_;
        if (turns_ < 200) return relax();
        if (turns_ < 4000) return std::this_thread::yield();
        std::this_thread::sleep_for(std::chrono::microseconds(turns_ < 20000 ? 50 : 500));
    }

  private:
    int turns_ = 0;
};

// Messages between ranks that end with the first failure.
class Exchange {
  public:
    Exchange(MPI_Comm group, std::chrono::milliseconds deadline) : deadline_(deadline) {
        check(MPI_Comm_dup(group, &group_), "make a communicator");
        MPI_Comm_set_errhandler(group_, MPI_ERRORS_RETURN);
        MPI_Comm_rank(group_, &rank_);
        MPI_Comm_size(group_, &size_);
    }
    // A group in which a message may still be under way is left as it is.
    ~Exchange() {
        if (failure_.empty()) MPI_Comm_free(&group_);
    }
    int rank() const { return rank_; }
    int size() const { return size_; }
    bool failed() const { return !failure_.empty(); }

    void send(const void* data, int64_t bytes, int to) {
        sends_.emplace_back();
        check(MPI_Isend(data, count(bytes), MPI_BYTE, to, tag_data, group_, &sends_.back()), "send");
    }
    void receive(void* data, int64_t bytes, int from) {
        receives_.emplace_back();
        sources_.push_back(from);
        check(MPI_Irecv(data, count(bytes), MPI_BYTE, from, tag_data, group_, &receives_.back()), "receive");
    }
    // Until all that was sent and received so far is done.
    void finish() {
        finish_receives();
        finish_sends();
    }
    void finish_sends() { finish(sends_); }
    void finish_receives() {
        try {
            finish(receives_);
        } catch (...) {
            abandon_receives();
            throw;
        }
        sources_.clear();
    }
    // Fails if anyone said that it failed.
    void check_alive() {
        int there = 0;
        MPI_Status status;
        if (failure_.empty() &&
            MPI_Iprobe(MPI_ANY_SOURCE, tag_failure, group_, &there, &status) == MPI_SUCCESS && there) {
            int length = 0;
            MPI_Get_count(&status, MPI_BYTE, &length);
            std::string text(size_t(std::max(length, 0)), ' ');
            MPI_Recv(text.data(), length, MPI_BYTE, status.MPI_SOURCE, tag_failure, group_,
                     MPI_STATUS_IGNORE);
            failure_ = fmt::format("rank {} failed: {}", status.MPI_SOURCE, text);
        }
        if (!failure_.empty()) fail(Status::device_lost, "{}", failure_);
    }
    // own: what this rank says itself.
    void tell(const std::string& words, const std::string& own) noexcept {
        if (failure_.empty()) failure_ = own;
        if (told_) return;
        told_ = true;
        auto* kept = new std::string(words);  // MPI may read it at any later time
        for (int other = 0; other < size_; ++other) {
            MPI_Request request;
            if (other != rank_ && MPI_Isend(kept->data(), int(kept->size()), MPI_BYTE, other, tag_failure,
                                            group_, &request) == MPI_SUCCESS)
                MPI_Request_free(&request);
        }
    }

  private:
    void finish(std::vector<MPI_Request>& requests) {
        Patience patience;
        const Clock::time_point start = Clock::now();
        for (int done = 0;;) {
            check(MPI_Testall(int(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE),
                  "exchange messages");
            if (done) break;
            check_alive();
            if (Clock::now() - start > deadline_) {
                const std::string words =
                    fmt::format("waited {} ms for {}", deadline_.count(), missing(requests));
                tell(words, fmt::format("rank {} {}", rank_, words));
                check_alive();
            }
            patience.wait();
        }
        requests.clear();
    }
    // Who has not sent what is waited for.
    std::string missing(const std::vector<MPI_Request>& requests) const {
        for (size_t i = 0; &requests == &receives_ && i < receives_.size(); ++i) {
            int there = 1;
            MPI_Request_get_status(receives_[i], &there, MPI_STATUS_IGNORE);
            if (!there) return fmt::format("rank {}", sources_[i]);
        }
        return "the others";
    }
    // Nothing may arrive in memory that its owner gives back after a failure. A message on its way is waited
    // for, but not for ever.
    void abandon_receives() noexcept {
        const Clock::time_point start = Clock::now();
        for (MPI_Request& request : receives_) {
            if (request == MPI_REQUEST_NULL) continue;
            MPI_Cancel(&request);
            Patience patience;
            for (int done = 0; Clock::now() - start < std::chrono::seconds(2);) {
                if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done) break;
                patience.wait();
            }
        }
        receives_.clear();
        sources_.clear();
    }
    static int count(int64_t bytes) {
        COTERIE_CHECK(bytes >= 0 && bytes <= INT32_MAX);
        return int(bytes);
    }
    MPI_Comm group_ = MPI_COMM_NULL;
    int rank_ = 0, size_ = 1;
    std::chrono::milliseconds deadline_;
    std::vector<MPI_Request> sends_, receives_;
    std::vector<int> sources_;  // of receives_
    std::string failure_;
    bool told_ = false;
};

class MpiCommunicator final : public Communicator {
  public:
    MpiCommunicator(MPI_Comm group, std::chrono::milliseconds deadline)
        : exchange_(std::make_unique<Exchange>(group, deadline)) {}
    ~MpiCommunicator() override {
        // Messages of a failed run may still use the staging.
        if (exchange_->failed()) new std::pair(std::move(mine_), std::move(theirs_));
    }
    int rank() const override { return exchange_->rank(); }
    int size() const override { return exchange_->size(); }

    void all_reduce_sum(Rows x) override {
        check_rows(x);
        exchange_->check_alive();
        const int64_t total = x.rows * x.width;
        const Range part = part_of(total, rank(), size(), 16);
        const int64_t length = part.end - part.begin;
        grow(mine_, total);
        grow(theirs_, length * size());
        pack(x);
        for (int other = 0; other < size(); ++other) {
            if (other == rank()) continue;
            const Range out = part_of(total, other, size(), 16);
            exchange_->receive(theirs_.data() + other * length, bytes(length), other);
            exchange_->send(mine_.data() + out.begin, bytes(out.end - out.begin), other);
        }
        exchange_->finish();
        std::copy_n(mine_.data() + part.begin, length, theirs_.data() + rank() * length);
        float* sum = mine_.data() + part.begin;
        std::copy_n(theirs_.data(), length, sum);
        for (int other = 1; other < size(); ++other)
            for (int64_t i = 0; i < length; ++i) sum[i] += theirs_[size_t(other * length + i)];
        for (int other = 0; other < size(); ++other) {
            if (other == rank()) continue;
            const Range in = part_of(total, other, size(), 16);
            exchange_->receive(mine_.data() + in.begin, bytes(in.end - in.begin), other);
            exchange_->send(sum, bytes(length), other);
        }
        exchange_->finish();
        for (int64_t r = 0; r < x.rows; ++r) std::copy_n(mine_.data() + r * x.width, x.width, x.row(r));
    }

    void all_gather(Rows y, Rows x) override {
        check_rows(x);
        check_rows(y);
        exchange_->check_alive();
        COTERIE_CHECK(y.rows == x.rows);
        std::vector<int64_t> widths(size_t(size()), x.width);
        for (int other = 0; other < size(); ++other) {
            if (other == rank()) continue;
            exchange_->receive(&widths[size_t(other)], sizeof(int64_t), other);
            exchange_->send(&widths[size_t(rank())], sizeof(int64_t), other);
        }
        exchange_->finish();
        grow(mine_, x.rows * x.width);
        pack(x);
        for (int other = 0; other < size(); ++other)
            if (other != rank()) exchange_->send(mine_.data(), bytes(x.rows * x.width), other);
        int64_t at = 0;
        for (int other = 0; other < size(); ++other) {
            const int64_t width = widths[size_t(other)];
            COTERIE_CHECK(at + width <= y.width);
            const float* from = mine_.data();
            if (other != rank()) {
                grow(theirs_, y.rows * width);
                exchange_->receive(theirs_.data(), bytes(y.rows * width), other);
                exchange_->finish_receives();
                from = theirs_.data();
            }
            for (int64_t r = 0; r < y.rows; ++r) std::copy_n(from + r * width, width, y.row(r) + at);
            at += width;
        }
        exchange_->finish_sends();
        COTERIE_CHECK(at == y.width);
    }

    void send(Rows x, int to) override {
        check_rows(x);
        exchange_->check_alive();
        exchange_->finish_sends();  // the last message has left
        grow(mine_, x.rows * x.width);
        pack(x);
        exchange_->send(mine_.data(), bytes(x.rows * x.width), to);
    }
    void receive(Rows x, int from) override {
        check_rows(x);
        exchange_->check_alive();
        if (x.rows <= 1 || x.stride == x.width) {
            exchange_->receive(x.data, bytes(x.rows * x.width), from);
            return exchange_->finish_receives();
        }
        grow(theirs_, x.rows * x.width);
        exchange_->receive(theirs_.data(), bytes(x.rows * x.width), from);
        exchange_->finish_receives();
        for (int64_t r = 0; r < x.rows; ++r) std::copy_n(theirs_.data() + r * x.width, x.width, x.row(r));
    }

    // Called while the failure is being handled: its words go to the others.
    void abort() noexcept override {
        std::string words = "it left the run";
        try {
            if (const std::exception_ptr current = std::current_exception()) std::rethrow_exception(current);
        } catch (const std::exception& error) {
            words = error.what();
        } catch (...) {
        }
        if (!exchange_->failed()) exchange_->tell(words, words);
    }

    void reserve(int64_t meeting_floats, int64_t message_floats) override {
        grow(mine_, std::max(meeting_floats, message_floats));
        if (meeting_floats > 0) grow(theirs_, meeting_floats);
    }
    uint64_t staging_bytes() const override { return (mine_.size() + theirs_.size()) * sizeof(float); }

  private:
    static int64_t bytes(int64_t floats) { return floats * int64_t(sizeof(float)); }
    static void grow(std::vector<float>& v, int64_t floats) {
        if (int64_t(v.size()) < floats) v.resize(size_t(floats));
    }
    void pack(Rows x) {
        for (int64_t r = 0; r < x.rows; ++r) std::copy_n(x.row(r), x.width, mine_.data() + r * x.width);
    }

    std::unique_ptr<Exchange> exchange_;
    std::vector<float> mine_, theirs_;
};

class MpiProcesses final : public Processes {
  public:
    MpiProcesses() {
        int initialised = 0, level = 0;
        MPI_Initialized(&initialised);
        if (!initialised) {
            check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level), "start");
            ours_ = true;
        }
        MPI_Comm machine;
        check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine),
              "tell machines apart");
        MPI_Comm_size(machine, &on_this_machine_);
        MPI_Comm_free(&machine);
        exchange_ = std::make_unique<Exchange>(MPI_COMM_WORLD, together_deadline);
        check(MPI_Comm_dup(MPI_COMM_WORLD, &orders_), "make a communicator");
    }
    ~MpiProcesses() override {
        if (rank() == 0) {
            try {
                give_order({});  // the others may end
            } catch (const std::exception&) {
            }
        }
        exchange_.reset();
        if (ours_) MPI_Finalize();
    }
    int rank() const override { return exchange_->rank(); }
    int size() const override { return exchange_->size(); }
    int on_this_machine() const override { return on_this_machine_; }

    void give_order(std::span<const std::byte> order) override {
        for (int other = 1; other < size(); ++other)
            check(MPI_Send(order.data(), int(order.size()), MPI_BYTE, other, tag_order, orders_),
                  "send an order");
    }
    std::vector<std::byte> next_order() override {
        Patience patience;
        MPI_Status status;
        for (int there = 0;;) {
            check(MPI_Iprobe(0, tag_order, orders_, &there, &status), "wait for orders");
            if (there) break;
            patience.wait();
        }
        int length = 0;
        MPI_Get_count(&status, MPI_BYTE, &length);
        std::vector<std::byte> order(size_t(std::max(length, 0)));
        check(MPI_Recv(order.data(), length, MPI_BYTE, 0, tag_order, orders_, MPI_STATUS_IGNORE),
              "receive an order");
        return order;
    }

    std::vector<std::vector<std::byte>> share(std::span<const std::byte> mine) override {
        std::vector<int64_t> lengths(size_t(size()), int64_t(mine.size()));
        for (int other = 0; other < size(); ++other) {
            if (other == rank()) continue;
            exchange_->receive(&lengths[size_t(other)], sizeof(int64_t), other);
            exchange_->send(&lengths[size_t(rank())], sizeof(int64_t), other);
        }
        exchange_->finish();
        std::vector<std::vector<std::byte>> all{size_t(size())};
        for (int other = 0; other < size(); ++other) {
            std::vector<std::byte>& theirs = all[size_t(other)];
            if (other == rank()) {
                theirs.assign(mine.begin(), mine.end());
                continue;
            }
            theirs.resize(size_t(lengths[size_t(other)]));
            exchange_->receive(theirs.data(), int64_t(theirs.size()), other);
            exchange_->send(mine.data(), int64_t(mine.size()), other);
        }
        exchange_->finish();
        return all;
    }
    std::unique_ptr<Communicator> make_communicator(std::chrono::milliseconds deadline) override {
        return std::make_unique<MpiCommunicator>(MPI_COMM_WORLD, deadline);
    }

  private:
    bool ours_ = false;
    int on_this_machine_ = 1;
    std::unique_ptr<Exchange> exchange_;
    MPI_Comm orders_ = MPI_COMM_NULL;
};

}  // namespace

}  // namespace coterie

extern "C" {
__attribute__((visibility("default"))) const char* coterie_mpi_interface() {
    return coterie::mpi_interface;
}
__attribute__((visibility("default"))) coterie::Processes* coterie_mpi_backend() {
    return new coterie::MpiProcesses;
}
}
