#include "engine/sequence_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "base/checksum.h"
#include "base/failure.h"
#include "base/mapped_file.h"

namespace coterie {
namespace {

constexpr char magic[8] = {'c', 'o', 't', 'e', 'r', 's', 'e', 'q'};
constexpr uint32_t version = 1;

struct Header {
    char magic[8];
    uint32_t version;
    int32_t page_tokens;
    uint64_t model[2];
    uint64_t page_bytes, state_bytes;
    uint64_t layout_bytes, tokens, pages, states;
};
static_assert(sizeof(Header) == 80);

template <typename T>
std::span<const std::byte> bytes_of(const std::vector<T>& v) {
    return std::as_bytes(std::span(v));
}

}  // namespace

Fingerprint model_fingerprint(const Model& model) {
    Checksum a(1), b(2);
    const auto shards = model.file().shards();
    for (size_t i = 0; i < shards.size(); ++i) {
        uint64_t end = shards[i].size();
        for (const gguf::Tensor& tensor : model.file().tensors())
            if (size_t(tensor.shard) == i) end = std::min<uint64_t>(end, tensor.offset);
        const auto head = shards[i].bytes().first(size_t(end));
        a.add(head);
        b.add(head);
    }
    return {a.value(), b.value()};
}

void write_sequence_file(const std::string& path, const SequenceBinding& binding,
                         const SavedSequence& saved) {
    Header header{};
    std::memcpy(header.magic, magic, sizeof magic);
    header.version = version;
    header.page_tokens = binding.page_tokens;
    header.model[0] = binding.model[0];
    header.model[1] = binding.model[1];
    header.page_bytes = binding.page_bytes;
    header.state_bytes = binding.state_bytes;
    header.layout_bytes = binding.layout.size();
    header.tokens = saved.tokens.size();
    header.pages = uint64_t(saved.page_count);
    header.states = saved.state.empty() ? 0 : 1;
    const std::string partial = path + ".partial";
    std::ofstream file(partial, std::ios::binary | std::ios::trunc);
    Checksum sum;
    const auto put = [&](std::span<const std::byte> piece) {
        sum.add(piece);
        file.write(reinterpret_cast<const char*>(piece.data()), std::streamsize(piece.size()));
    };
    put(std::as_bytes(std::span(&header, 1)));
    put(std::as_bytes(std::span(binding.layout)));
    put(bytes_of(saved.tokens));
    put(bytes_of(saved.pages));
    put(bytes_of(saved.state));
    const uint64_t value = sum.value();
    file.write(reinterpret_cast<const char*>(&value), sizeof value);
    file.close();
    if (file.fail() || std::rename(partial.c_str(), path.c_str()) != 0) {
        const int error = errno;
        std::remove(partial.c_str());
        fail(Status::invalid_argument, "{} can't be written: {}", path, std::strerror(error));
    }
}

SavedSequence read_sequence_file(const std::string& path, const SequenceBinding& binding) {
    const MappedFile file(path);
    const std::span<const std::byte> all = file.bytes();
    Header header{};
    if (all.size() < sizeof header + sizeof(uint64_t) || std::memcmp(all.data(), magic, sizeof magic) != 0)
        fail(Status::bad_model, "{} is not a saved sequence", path);
    std::memcpy(&header, all.data(), sizeof header);
    if (header.version != version)
        fail(Status::unsupported, "{} has version {} of saved sequences, but {} is known", path,
             header.version, version);
    if (header.model[0] != binding.model[0] || header.model[1] != binding.model[1])
        fail(Status::invalid_argument, "{} was saved from another model than this engine's", path);

    size_t at = sizeof header;
    const auto take = [&](uint64_t count, uint64_t unit) {
        const uint64_t left = all.size() - sizeof(uint64_t) - at;
        if (unit > 0 && count > left / unit)
            fail(Status::bad_model, "{} is cut short: it has {} bytes", path, all.size());
        const auto piece = all.subspan(at, size_t(count * unit));
        at += piece.size();
        return piece;
    };
    const auto layout = take(header.layout_bytes, 1);
    const std::string words(reinterpret_cast<const char*>(layout.data()), layout.size());
    if (words != binding.layout || header.page_tokens != binding.page_tokens ||
        header.page_bytes != binding.page_bytes || header.state_bytes != binding.state_bytes)
        fail(
            Status::invalid_argument,
            "{} was saved by another kind of engine ({}) than this one ({}); restore it with the devices and "
            "cache types it was saved with",
            path, words.substr(0, 200), binding.layout);
    const auto tokens = take(header.tokens, sizeof(int32_t));
    const auto pages = take(header.pages, header.page_bytes);
    const auto state = take(header.states, header.state_bytes);
    if (at + sizeof(uint64_t) != all.size())
        fail(Status::bad_model, "{} has {} bytes, but its contents take {}", path, all.size(),
             at + sizeof(uint64_t));
    Checksum sum;
    for (const auto piece : {all.first(sizeof header), layout, tokens, pages, state}) sum.add(piece);
    uint64_t value;
    std::memcpy(&value, all.data() + at, sizeof value);
    if (value != sum.value()) fail(Status::bad_model, "{} is damaged: its checksum is wrong", path);

    SavedSequence saved;
    saved.tokens.resize(size_t(header.tokens));
    if (!tokens.empty()) std::memcpy(saved.tokens.data(), tokens.data(), tokens.size());
    const bool known = std::all_of(saved.tokens.begin(), saved.tokens.end(),
                                   [&](int32_t token) { return token >= 0 && token < binding.vocabulary; });
    const uint64_t whole_pages = header.tokens / uint64_t(std::max(1, binding.page_tokens));
    const uint64_t states = binding.state_bytes > 0 && header.pages > 0 ? 1 : 0;
    if (!known || header.pages > whole_pages || header.states != states)
        fail(Status::bad_model, "{} contradicts itself", path);
    saved.page_count = int64_t(header.pages);
    saved.pages.assign(pages.begin(), pages.end());
    saved.state.assign(state.begin(), state.end());
    return saved;
}

}  // namespace coterie
