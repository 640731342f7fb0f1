// Runs steps of a model placed on ranks: one device, weights, cache, states and scratch per rank; one thread
// per rank when there are several. Everything is allocated here, nothing in a step. One caller at a time.
#pragma once
#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/numa.h"
#include "base/progress.h"
#include "device/communicator.h"
#include "device/processes.h"
#include "model/model.h"

namespace coterie {

struct OutputTap;

struct RunnerShape {
    int64_t step_rows = 512;    // most rows of a step
    int64_t step_outputs = 16;  // most rows of a step whose logits are wanted
    int32_t page_tokens = 64;
    int32_t pages = 0;        // of the cache, shared by all sequences
    int32_t state_slots = 0;  // of models with recurrent states
    Type key_type = Type::F16, value_type = Type::F16;
    int64_t context_tokens = 0;  // longest sequence (chooses rope factors)
    double row_cost = 0;         // of layer mode (Plan::row_cost): how steps are split between ranks
};

// What a rank holds, in bytes.
struct RankMemory {
    std::string device;
    uint64_t weights = 0, cache = 0, states = 0, scratch = 0, comm = 0;
};

struct RankPlace {
    std::unique_ptr<Device> device;
    std::unique_ptr<Communicator> communicator;
    Share share;
    std::optional<NumaNode> node = {};  // whose cores and memory the rank uses; absent: any
};

struct Order;

// What of a step's logits is wanted besides whole rows: the best of every wanted row.
struct BestLogits {
    int32_t count = 0;           // per row; at most Runner::most_best()
    std::vector<bool> whole;     // [outputs] rows that are wanted as a whole, too
    std::vector<Ranked> ranked;  // [outputs, count], best first
};

class Runner {
  public:
    // Loads the weights. places: one per rank, in rank order. Throws what devices throw; the first failure of
    // any rank.
    Runner(std::shared_ptr<const Model> model, std::vector<RankPlace> places, const RunnerShape& shape,
           const ProgressCallback& progress = {});
    // One rank of several processes: shares of all of them. The first process's runner has the others do what
    // it does (orders.h).
    Runner(std::shared_ptr<const Model> model, RankPlace place, const RunnerShape& shape,
           std::vector<Share> shares, std::shared_ptr<Processes> crew, const ProgressCallback& progress = {});
    ~Runner();
    Runner(const Runner&) = delete;
    Runner& operator=(const Runner&) = delete;

    // Runs a step and copies the wanted rows' logits to `logits` [outputs, vocabulary]. Checks the step
    // first.
    void run(const Step& step, std::span<float> logits);

    // As above, but only the rows of best.whole are copied to logits, and best.ranked is filled.
    void run(const Step& step, std::span<float> logits, BestLogits& best);
    // The largest BestLogits::count; 0: whole rows are as quick to have.
    int32_t most_best() const;

    // Runs a step and hands the wanted rows, of which there may be as many as rows, to `reader`: their
    // logits, or with `hidden` what the output head would be given. Called on a rank's thread, with rows
    // first, first
    // + 1, ... of the wanted ones in one piece; must not throw.
    using RowReader = std::function<void(int64_t first, std::span<const float> rows)>;
    void read(const Step& step, bool hidden, const RowReader& reader);

    // On every rank.
    void copy_page(int32_t from, int32_t to);
    void clear_state(int32_t slot);
    void copy_state(int32_t from, int32_t to);
    // A page or slot of all ranks, rank after rank; for saving and restoring.
    uint64_t page_bytes() const;
    uint64_t state_bytes() const;
    void read_page(int32_t page, std::byte* to);
    void write_page(int32_t page, const std::byte* from);
    void read_state(int32_t slot, std::byte* to);
    void write_state(int32_t slot, const std::byte* from);

    const Model& model() const { return *model_; }
    const RunnerShape& shape() const { return shape_; }
    int ranks() const;
    const Device& device(int rank) const;
    std::vector<RankMemory> memory() const;

  private:
    struct Rank;
    void check(const Step& step, int64_t outputs) const;
    bool layered() const;
    void prepare(std::vector<RankPlace> places, const ProgressCallback& progress);
    void announce(const Order& order);
    void bring_logits(Rank& rank, const Step& step, std::span<float> logits);
    void refuse_crew(const char* what) const;
    void split(const Step& step, int parts);
    uint64_t replay_key(size_t part) const;
    void step_on(Rank& rank);
    void forward(Rank& rank, size_t part, int64_t outputs, const OutputTap* tap = nullptr);
    const Rank* head() const;  // the first with all logits
    template <typename Function>
    void on_all(Function&& function);
    ProgressCallback rank_progress(const Rank& rank, const ProgressCallback& progress);

    std::shared_ptr<const Model> model_;
    RunnerShape shape_;
    // The step that runs, in the parts that follow each other through the ranks of layer mode; always these
    // objects, so that recorded calls find them again.
    struct StepPart {
        Step step;
        int64_t first_output = 0;
    };
    std::vector<StepPart> parts_;
    size_t part_count_ = 1;
    int32_t best_count_ = 0;           // of the step that runs: how many of each row's best are wanted
    std::vector<float> read_;          // rows on their way to a reader
    std::shared_ptr<Processes> crew_;  // null: all ranks are in this process
    std::vector<Share> shares_;        // of all ranks
    std::vector<std::unique_ptr<Rank>> ranks_;
    std::unique_ptr<ThreadTeam> team_;  // one member per rank; absent for a lone rank
    std::atomic<bool> failed_{false};   // a rank failed: nothing more is run
    std::mutex failure_mutex_;
    std::exception_ptr failure_;  // the first
};

}  // namespace coterie
