#include "device/staged_communicator.h"

#include <vector>

#include "device/checks.h"

namespace coterie {

namespace {

class StagedCommunicator final : public Communicator {
  public:
    StagedCommunicator(std::unique_ptr<Communicator> host, Device& device)
        : host_(std::move(host)), device_(device) {}
    int rank() const override { return host_->rank(); }
    int size() const override { return host_->size(); }

    void all_reduce_sum(Rows x) override {
        if (size() == 1) return;
        const Rows copy = fetch(x);
        host_->all_reduce_sum(copy);
        put(x, copy);
    }
    void all_gather(Rows y, Rows x) override {
        check_rows(y);
        const Rows copy = fetch(x);
        gathered_.resize(size_t(y.rows * y.width));
        const Rows all(gathered_.data(), y.rows, y.width);
        host_->all_gather(all, copy);
        put(y, all);
    }
    void send(Rows x, int to) override { host_->send(fetch(x), to); }
    void receive(Rows x, int from) override {
        check_rows(x);
        floats_.resize(size_t(x.rows * x.width));
        const Rows copy(floats_.data(), x.rows, x.width);
        host_->receive(copy, from);
        put(x, copy);
    }
    void abort() noexcept override { host_->abort(); }

  private:
    // One copy where the rows follow each other, with what lies between them where they are strided.
    Rows fetch(Rows x) {
        check_rows(x);
        if (x.rows == 0) return Rows(floats_.data(), 0, x.width);
        floats_.resize(size_t((x.rows - 1) * x.stride + x.width));
        device_.read(floats_.data(), x.data, floats_.size() * sizeof(float));
        Rows copy(floats_.data(), x.rows, x.width);
        copy.stride = x.stride;
        return copy;
    }
    void put(Rows to, Rows from) {
        if (to.rows == 0) return;
        if (to.stride == to.width && from.stride == from.width)
            return device_.write(to.data, from.data, uint64_t(to.rows * to.width) * sizeof(float));
        for (int64_t r = 0; r < to.rows; ++r)
            device_.write(to.row(r), from.row(r), uint64_t(to.width) * sizeof(float));
    }

    std::unique_ptr<Communicator> host_;
    Device& device_;
    std::vector<float> floats_, gathered_;
};

}  // namespace

std::unique_ptr<Communicator> make_staged_communicator(std::unique_ptr<Communicator> host, Device& device) {
    return std::make_unique<StagedCommunicator>(std::move(host), device);
}

}  // namespace coterie
