// Saved sequences as files: "coterseq", version, what they are bound to, tokens, pages, state, checksum;
// little-endian. A file is read only by an engine of the same model (the same metadata and tensor table) and
// the same layout of cache and states. Nothing in a file is trusted.
#pragma once
#include <array>
#include <cstdint>
#include <string>

#include "engine/scheduler.h"
#include "model/model.h"

namespace coterie {

using Fingerprint = std::array<uint64_t, 2>;

// Of a model's metadata and tensor table: all bytes of its files before their first tensors.
Fingerprint model_fingerprint(const Model& model);

struct SequenceBinding {
    Fingerprint model{};
    int32_t page_tokens = 0, vocabulary = 0;
    uint64_t page_bytes = 0, state_bytes = 0;
    std::string layout;  // in words, compared as text
};

// Replaces the file as a whole or not at all. Throws invalid_argument when it can't be written.
void write_sequence_file(const std::string& path, const SequenceBinding& binding, const SavedSequence& saved);
// Throws not_found, invalid_argument when the file belongs to another model or engine, bad_model when it is
// damaged.
SavedSequence read_sequence_file(const std::string& path, const SequenceBinding& binding);

}  // namespace coterie
