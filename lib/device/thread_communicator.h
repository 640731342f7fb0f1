// Ranks that are threads of one process and meet in host memory. Sums are taken in rank order on every rank,
// so they are the same bits everywhere and every time. Nobody reads another rank's rows, only copies in
// staging memory that all ranks own together: a rank that fails may drop its buffers at once.
//
// A wait ends in one of three ways: the others came; a rank failed or called abort() (device_lost, naming
// it); the deadline passed (device_lost, naming who is missing), which is an abort on the missing rank's
// behalf. After that every call on every rank fails: make new communicators.
#pragma once
#include <chrono>
#include <memory>
#include <vector>

#include "device/communicator.h"

namespace coterie {

// The i-th is for rank i, to be used by one thread at a time. The deadline is for each wait, not for the
// whole run.
std::vector<std::unique_ptr<Communicator>> make_thread_communicators(
    int ranks, std::chrono::milliseconds deadline = std::chrono::seconds(60));

}  // namespace coterie
