// Lets devices with memory of their own meet through a communicator that works in host memory: rows are read
// to the host, exchanged there and written back. Right everywhere and fast nowhere: the way for devices
// without a verified link between them.
#pragma once
#include <memory>

#include "device/communicator.h"

namespace coterie {

// The device must outlive the communicator's last call.
std::unique_ptr<Communicator> make_staged_communicator(std::unique_ptr<Communicator> host, Device& device);

}  // namespace coterie
