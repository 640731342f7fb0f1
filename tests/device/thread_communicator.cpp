// Ranks as threads: sums, gathers and messages, the same bits on every rank; and what happens when one fails,
// comes late or calls something else.
#include "device/thread_communicator.h"

#include <cmath>
#include <functional>
#include <thread>

#include "base/failure.h"
#include "catch.h"
#include "device/reference/reference_device.h"
#include "workbench.h"

using namespace coterie;
using namespace coterie::test;
using std::chrono::milliseconds;

namespace {

// Runs `work` on every rank and returns what each one's failure said (empty: none), with its status before
// it.
std::vector<std::string> run(int ranks, milliseconds deadline,
                             const std::function<void(Communicator&)>& work) {
    auto communicators = make_thread_communicators(ranks, deadline);
    std::vector<std::string> messages(static_cast<size_t>(ranks));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank)
        threads.emplace_back([&, rank] {
            Communicator& own = *communicators[size_t(rank)];
            try {
                work(own);
            } catch (const Failure& failure) {
                messages[size_t(rank)] =
                    std::string(status_name(failure.status())) + ": " + failure.message();
            } catch (const std::exception& other) {
                messages[size_t(rank)] = other.what();
                own.abort();
            }
        });
    for (std::thread& thread : threads) thread.join();
    return messages;
}

bool says(const std::string& message, const std::string& part) {
    return message.find(part) != std::string::npos;
}

// Numbers of very different sizes, so that the order of a sum shows in its last bits.
Floats of_rank(int rank, int64_t n, int round) {
    Random random(uint64_t(1000 * round + rank + 1));
    Floats x(static_cast<size_t>(n));
    for (float& value : x) value = std::ldexp(float(random.uniform()) - 0.5f, random.below(12));
    return x;
}

}  // namespace

TEST_CASE("sums are in rank order and the same bits on every rank", "[communicator]") {
    // One below, one at, and two above the size from which the work is shared out; strided rows too.
    const std::pair<int64_t, int64_t> shapes[] = {{1, 1}, {3, 7}, {8, 4096}, {33, 1000}, {5, 33333}};
    for (const int ranks : {1, 2, 3, 4, 7}) {
        const auto messages = run(ranks, milliseconds(20000), [&](Communicator& c) {
            if (c.size() != ranks) fail(Status::internal, "a run of {}?", c.size());
            for (int round = 0; round < 3; ++round)
                for (const auto& [rows, width] : shapes) {
                    const int64_t n = rows * width, stride = width + 5 * round;
                    Floats mine(size_t(rows * stride), 1e30f), expected(static_cast<size_t>(n));
                    for (int rank = 0; rank < ranks; ++rank) {
                        const Floats theirs = of_rank(rank, n, round);
                        for (int64_t i = 0; i < n; ++i)
                            expected[size_t(i)] =
                                rank ? expected[size_t(i)] + theirs[size_t(i)] : theirs[size_t(i)];
                        if (rank == c.rank())
                            for (int64_t i = 0; i < n; ++i)
                                mine[size_t(i / width * stride + i % width)] = theirs[size_t(i)];
                    }
                    Rows x(mine.data(), rows, width);
                    x.stride = stride;
                    c.all_reduce_sum(x);
                    bool same = true;
                    for (int64_t i = 0; i < rows * stride; ++i) {
                        const bool gap = i % stride >= width;
                        same &= mine[size_t(i)] ==
                                (gap ? 1e30f : expected[size_t(i / stride * width + i % stride)]);
                    }
                    if (!same) fail(Status::internal, "round {}: {} x {} differ", round, rows, width);
                }
        });
        for (const std::string& message : messages) CHECK(message.empty());
    }
}

TEST_CASE("gathered rows lie side by side in rank order, of different widths", "[communicator]") {
    const auto messages = run(3, milliseconds(20000), [](Communicator& c) {
        for (int round = 1; round < 40; ++round) {
            const int64_t rows = round % 4 + 1, width = c.rank() == 1 ? 0 : c.rank() + round;
            const int64_t total = round + (2 + round);
            Floats mine(static_cast<size_t>(rows * width)), all(static_cast<size_t>(rows * total));
            for (size_t i = 0; i < mine.size(); ++i) mine[i] = float(1000 * c.rank() + int(i));
            c.all_gather(Rows(all.data(), rows, total), Rows(mine.data(), rows, width));
            for (int64_t i = 0; i < rows * total; ++i) {
                const int64_t row = i / total, column = i % total;
                const float expected = column < round ? float(row * round + column)
                                                      : float(2000 + row * (2 + round) + column - round);
                if (all[size_t(i)] != expected)
                    fail(Status::internal, "round {}: place {} is wrong", round, i);
            }
        }
    });
    for (const std::string& message : messages) CHECK(message.empty());
}

TEST_CASE("messages arrive in order and may cross", "[communicator]") {
    const auto messages = run(3, milliseconds(20000), [](Communicator& c) {
        const int next = (c.rank() + 1) % 3, before = (c.rank() + 2) % 3;
        for (int round = 0; round < 100; ++round) {
            Floats x(size_t(round + 1), float(100 * c.rank() + round)), y(x.size());
            c.send(Rows(x.data(), 1, round + 1), next);
            c.receive(Rows(y.data(), 1, round + 1), before);
            if (y != Floats(x.size(), float(100 * before + round))) fail(Status::internal, "round {}", round);
            if (round % 10 == 0) c.all_reduce_sum(Rows(x.data(), 1, round + 1));
        }
    });
    for (const std::string& message : messages) CHECK(message.empty());
}

TEST_CASE("the sum, the residual and the norm in one", "[communicator]") {
    const auto messages = run(2, milliseconds(20000), [](Communicator& c) {
        ReferenceDevice device;
        Floats x{1, 1}, y{c.rank() ? 2.0f : 0.0f, c.rank() ? 1.0f : 2.0f}, h(2);
        c.all_reduce_add_rms_norm(device, Rows(x.data(), 1, 2), Rows(y.data(), 1, 2), Rows(h.data(), 1, 2),
                                  nullptr, 0.0f);
        // x = 1 + 2, 1 + 3; mean of squares 12.5
        if (x != Floats{3, 4} || std::fabs(h[0] - 3 / std::sqrt(12.5f)) > 1e-6f)
            fail(Status::internal, "wrong: {} {} {}", x[0], x[1], h[0]);
    });
    for (const std::string& message : messages) CHECK(message.empty());
}

TEST_CASE("when a rank aborts, pending and later calls of the others fail and name it", "[communicator]") {
    for (const int kind : {0, 1, 2}) {
        const auto messages = run(4, milliseconds(20000), [&](Communicator& c) {
            Floats x(16), y(64);
            c.all_reduce_sum(Rows(x.data(), 1, 16));
            if (c.rank() == 2) {
                std::this_thread::sleep_for(milliseconds(20));
                throw std::runtime_error("the device is gone");
            }
            const auto wait = [&] {
                if (kind == 0) c.all_reduce_sum(Rows(x.data(), 1, 16));
                if (kind == 1) c.all_gather(Rows(y.data(), 1, 64), Rows(x.data(), 1, 16));
                if (kind == 2) c.receive(Rows(x.data(), 1, 16), 2);
            };
            const std::string pending = message_of(wait);
            const std::string later = message_of([&] { c.send(Rows(x.data(), 1, 16), (c.rank() + 1) % 4); });
            if (!says(pending, "rank 2 failed") || !says(later, "rank 2 failed"))
                throw std::runtime_error(pending + " / " + later);
            wait();
        });
        for (const int rank : {0, 1, 3}) CHECK(says(messages[size_t(rank)], "rank 2 failed"));
        CHECK(messages[2] == "the device is gone");
    }
}

TEST_CASE("a rank that doesn't come is named when the deadline passes", "[communicator]") {
    const auto messages = run(4, milliseconds(400), [](Communicator& c) {
        Floats x(3);
        if (c.rank() == 1 || c.rank() == 3) return;
        c.all_reduce_sum(Rows(x.data(), 1, 3));
    });
    // Who noticed first names both; the other may hear of it only through the first.
    CHECK((says(messages[0], "rank 1, 3 did not come") || says(messages[2], "rank 1, 3 did not come")));
    for (const int rank : {0, 2}) {
        INFO(messages[size_t(rank)]);
        CHECK(says(messages[size_t(rank)], status_name(Status::device_lost)));
        CHECK(says(messages[size_t(rank)], "rank 1"));
    }
    const auto silent = run(2, milliseconds(400), [](Communicator& c) {
        Floats x(3);
        if (c.rank() == 0) c.receive(Rows(x.data(), 1, 3), 1);
    });
    CHECK(says(silent[0], "rank 1 did not send"));
    const auto full = run(2, milliseconds(400), [](Communicator& c) {
        Floats x(3);
        for (int i = 0; c.rank() == 0 && i < 2; ++i) c.send(Rows(x.data(), 1, 3), 1);
    });
    CHECK(says(full[0], "rank 1 did not take"));
}

TEST_CASE("calls that contradict each other fail on every rank", "[communicator]") {
    const auto shapes = run(3, milliseconds(20000), [](Communicator& c) {
        Floats x(8);
        c.all_reduce_sum(Rows(x.data(), 1, c.rank() == 1 ? 8 : 4));
    });
    for (const std::string& message : shapes) CHECK(says(message, "rank 1"));
    const auto kinds = run(2, milliseconds(20000), [](Communicator& c) {
        Floats x(8), y(16);
        if (c.rank())
            c.all_gather(Rows(y.data(), 1, 16), Rows(x.data(), 1, 8));
        else
            c.all_reduce_sum(Rows(x.data(), 1, 8));
    });
    for (const std::string& message : kinds) CHECK(!message.empty());
    const auto narrow = run(2, milliseconds(20000), [](Communicator& c) {
        Floats x(8), y(16);
        c.all_gather(Rows(y.data(), 1, 15), Rows(x.data(), 1, 8));
    });
    for (const std::string& message : narrow) CHECK(!message.empty());
    const auto message = run(2, milliseconds(20000), [](Communicator& c) {
        Floats x(8);
        if (c.rank())
            c.receive(Rows(x.data(), 2, 4), 0);
        else
            c.send(Rows(x.data(), 1, 8), 1);
    });
    CHECK(says(message[1], "rank 0 sent 1 rows of 8"));
    auto two = make_thread_communicators(2);
    CHECK_THROWS_AS(two[0]->send(Rows(), 0), Failure);
    CHECK_THROWS_AS(two[0]->send(Rows(), 2), Failure);
}

TEST_CASE("a lone rank does nothing, correctly", "[communicator]") {
    SoloCommunicator solo;
    Floats x{1, 2, 3, 4}, y(4);
    solo.all_reduce_sum(Rows(x.data(), 2, 2));
    solo.all_gather(Rows(y.data(), 2, 2), Rows(x.data(), 2, 2));
    CHECK(y == Floats{1, 2, 3, 4});
    CHECK_THROWS_AS(solo.all_gather(Rows(y.data(), 2, 2), Rows(x.data(), 2, 1)), Failure);
    CHECK_THROWS_AS(solo.send(Rows(x.data(), 2, 2), 0), Failure);
    CHECK_THROWS_AS(solo.receive(Rows(x.data(), 2, 2), 0), Failure);
}
