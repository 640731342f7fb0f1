// The second seam: how the ranks of a run meet. Sums are F32 in fixed rank order, so a run is repeatable. If
// one rank fails it calls abort(); every other rank's pending or next call then throws, and nobody hangs.
#pragma once
#include <cstdint>

#include "device/device.h"

namespace coterie {

class Communicator {
  public:
    virtual ~Communicator() = default;
    virtual int rank() const = 0;
    virtual int size() const = 0;

    virtual void all_reduce_sum(Rows x) = 0;
    // y [rows, sum of the ranks' widths] = the ranks' x side by side, in rank order. Widths may differ.
    virtual void all_gather(Rows y, Rows x) = 0;
    virtual void send(Rows x, int to) = 0;
    virtual void receive(Rows x, int from) = 0;
    virtual void abort() noexcept = 0;
    // Whether its calls may be recorded (Device::replay): no host thread takes part in them.
    virtual bool can_record() const { return size() == 1; }

    // Makes room at once for sums and gathers of so many numbers from this rank, and for messages it sends,
    // so that a step needs none. staging_bytes() tells what this rank's calls hold. Here: nothing of its own.
    virtual void reserve(int64_t meeting_floats, int64_t message_floats) {
        (void)meeting_floats;
        (void)message_floats;
    }
    virtual uint64_t staging_bytes() const { return 0; }

    // y = sum over ranks of y; x += y; h = rms_norm(x). The body is the definition.
    virtual void all_reduce_add_rms_norm(Device& device, Rows x, Rows y, Rows h, const float* gain,
                                         float eps) {
        all_reduce_sum(y);
        device.add_rms_norm(x, y, h, gain, eps);
    }
};

// One rank: nothing to do, done correctly.
class SoloCommunicator final : public Communicator {
  public:
    int rank() const override { return 0; }
    int size() const override { return 1; }
    void all_reduce_sum(Rows) override {}
    void all_gather(Rows y, Rows x) override;
    void send(Rows x, int to) override;
    void receive(Rows x, int from) override;
    void abort() noexcept override {}
};

}  // namespace coterie
