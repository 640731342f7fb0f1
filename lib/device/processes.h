// The processes of one run, started together by mpirun, srun or another launcher of MPI: one rank each. The
// first leads: it gives orders, the others carry them out (engine/crew.h). A program takes part when it calls
// join_processes(), and not before. MPI is in a plug-in (libcoterie_mpi.so) that is opened then.
#pragma once
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/failure.h"
#include "device/communicator.h"

namespace coterie {

class Processes {
  public:
    virtual ~Processes() = default;
    virtual int rank() const = 0;
    virtual int size() const = 0;
    virtual int on_this_machine() const = 0;  // how many of them, this one included

    // From the first process to all others, in order; next_order() waits for ever.
    virtual void give_order(std::span<const std::byte> order) = 0;
    virtual std::vector<std::byte> next_order() = 0;

    // Calls that all processes make together. They fail (device_lost) when one does not come in time.
    // Everyone's bytes, in rank order.
    virtual std::vector<std::vector<std::byte>> share(std::span<const std::byte> mine) = 0;
    // Passes if nobody failed; else throws the failure of the lowest rank that did, on all of them.
    void agree(const std::optional<Failure>& mine);
    virtual std::unique_ptr<Communicator> make_communicator(std::chrono::milliseconds deadline) = 0;
};

// Whether a launcher started this process as one of several.
bool started_as_several();
// Takes part in the run; nothing for a process that was started alone. Throws unsupported when the plug-in
// can't be opened. The others' runs end when the first process ends.
void join_processes();
// Null unless there are several and this one joined them.
std::shared_ptr<Processes> processes();

// What the plug-in (mpi/processes.cpp) must answer, which changes with every change of this seam, and what it
// gives: this process's place among all, the caller's to delete.
constexpr char mpi_interface[] = "coterie mpi 1";
using MpiBackend = Processes*();

}  // namespace coterie
