#include "convert/upcycle.h"

#include <fmt/format.h>

#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "base/failure.h"
#include "convert/facts.h"
#include "convert/random.h"
#include "gguf/file.h"
#include "gguf/writer.h"

namespace coterie::convert {
namespace {

// A tensor of the output: copies of one of the input's, or new numbers.
struct Piece {
    const gguf::Tensor* source = nullptr;
    int copies = 1;
    std::vector<std::byte> numbers;
};

constexpr uint64_t piece_bytes = uint64_t(16) << 20;

std::vector<std::byte> bytes_of(const std::vector<float>& floats) {
    const std::span<const std::byte> bytes = std::as_bytes(std::span(floats));
    return {bytes.begin(), bytes.end()};
}

class Upcycler {
  public:
    Upcycler(const gguf::File& file, const std::string& out_path, const UpcycleOptions& options)
        : file_(file),
          options_(options),
          writer_(out_path),
          random_(options.seed),
          from_(architecture_of(file)) {}

    void run(const ProgressCallback& progress) {
        check();
        set_metadata();
        for (const gguf::Tensor& tensor : file_.tensors()) add(tensor);
        if (to_ == "qwen2moe" && !file_.find_tensor("output.weight"))  // its other readers want one
            add_copies("output.weight", dense("token_embd.weight"), 0);
        write(progress);
    }

  private:
    void check() {
        if (from_ == "llama")
            to_ = "llama";
        else if (from_ == "qwen3" || from_ == "qwen2")
            to_ = std::string(from_) + "moe";
        else
            fail(Status::unsupported,
                 "'{}' is of architecture '{}'; only llama, qwen2 and qwen3 models can be upcycled",
                 file_.path(), from_);
        if (options_.experts < 1 || options_.experts > 4096 || options_.used < 1 ||
            options_.used > options_.experts)
            fail(Status::invalid_argument,
                 "{} of {} experts were asked for; 1 to 4096 experts, at least one and at most all used",
                 options_.used, options_.experts);
        if (to_ == "qwen2moe" && options_.used != options_.experts)
            fail(Status::invalid_argument,
                 "qwen2moe does not make the chosen experts' weights sum to one, so upcycling '{}' is exact "
                 "only with all "
                 "experts used; {} of {} were asked for",
                 file_.path(), options_.used, options_.experts);
        layers_ = required_number(file_, "block_count");
        width_ = required_number(file_, "feed_forward_length");
        embedding_ = required_number(file_, "embedding_length");
        if (recipe_model(file_).experts > 0)
            fail(Status::unsupported, "'{}' has experts already", file_.path());
        for (int i = 0; i < layers_; ++i)
            for (const char* name : {"ffn_gate", "ffn_up", "ffn_down"}) {
                dense(fmt::format("blk.{}.{}.weight", i, name));
                if (file_.find_tensor(fmt::format("blk.{}.{}.bias", i, name)))
                    fail(Status::unsupported,
                         "'{}' has biases in its FFN (blk.{}.{}.bias), which experts of {} can't have",
                         file_.path(), i, name, to_);
            }
    }

    const gguf::Tensor& dense(const std::string& name) const {
        const gguf::Tensor* tensor = file_.find_tensor(name);
        if (!tensor) fail(Status::bad_model, "tensor '{}' is missing in '{}'", name, file_.path());
        if (tensor->dimensions > 2)
            fail(Status::bad_model, "tensor '{}' in '{}' is {}, but a matrix is expected", name, file_.path(),
                 gguf::shape_text(*tensor));
        return *tensor;
    }

    void set_metadata() {
        const std::string prefix = std::string(from_) + ".";
        for (const gguf::Entry& entry : file_.metadata()) {
            if (entry.key.starts_with("split.") || entry.key == "general.size_label") continue;
            std::string key(entry.key);
            if (key.starts_with(prefix)) key = to_ + "." + key.substr(prefix.size());
            writer_.set(key, entry.value);
        }
        writer_.set("general.architecture", to_);
        if (const auto name = file_.get_string("general.name"))
            writer_.set("general.name", fmt::format("{} ({} of {} experts, upcycled)", *name, options_.used,
                                                    options_.experts));
        writer_.set(to_ + ".expert_count", uint32_t(options_.experts));
        writer_.set(to_ + ".expert_used_count", uint32_t(options_.used));
        writer_.set(to_ + ".expert_feed_forward_length", uint32_t(width_));
        if (to_ == "qwen2moe")
            writer_.set(to_ + ".expert_shared_feed_forward_length", uint32_t(shared_width));
    }

    void add(const gguf::Tensor& tensor) {
        const std::string_view name = tensor.name;
        const size_t dot = name.find(".ffn_");
        const std::string_view tail =
            dot == std::string_view::npos ? std::string_view() : name.substr(dot + 1);
        if (tail == "ffn_gate.weight" || tail == "ffn_up.weight" || tail == "ffn_down.weight") {
            const std::string block(name.substr(0, dot + 1));
            const std::string stem(tail.substr(0, tail.find('.')));
            if (stem == "ffn_gate") add_router(block);
            add_copies(block + stem + "_exps.weight", tensor, options_.experts);
        } else {
            add_copies(tensor.name, tensor, 0);
        }
    }

    // copies == 0: the tensor as it is; otherwise a third dimension.
    void add_copies(const std::string& name, const gguf::Tensor& tensor, int copies) {
        std::vector<uint64_t> shape(tensor.shape.begin(), tensor.shape.begin() + tensor.dimensions);
        if (copies > 0) shape = {tensor.shape[0], tensor.shape[1], uint64_t(copies)};
        writer_.add_tensor(name, tensor.type, shape);
        pieces_.push_back({&tensor, std::max(copies, 1), {}});
    }

    void add_numbers(const std::string& name, std::vector<uint64_t> shape, float deviation) {
        uint64_t n = 1;
        for (const uint64_t extent : shape) n *= extent;
        std::vector<float> floats(n);
        if (deviation > 0)
            for (float& f : floats) f = deviation * random_.normal();
        writer_.add_tensor(name, Type::F32, shape);
        pieces_.push_back({nullptr, 1, bytes_of(floats)});
    }

    // Normed inputs have about unit size, so this deviation gives logits that differ by about one: a lively
    // choice.
    void add_router(const std::string& block) {
        const uint64_t n = uint64_t(embedding_);
        add_numbers(block + "ffn_gate_inp.weight", {n, uint64_t(options_.experts)},
                    1 / std::sqrt(float(embedding_)));
        if (to_ != "qwen2moe") return;
        add_numbers(block + "ffn_gate_inp_shexp.weight", {n}, 0);
        add_numbers(block + "ffn_gate_shexp.weight", {n, shared_width}, 0);
        add_numbers(block + "ffn_up_shexp.weight", {n, shared_width}, 0);
        add_numbers(block + "ffn_down_shexp.weight", {shared_width, n}, 0);
    }

    void write(const ProgressCallback& progress) {
        uint64_t total = 0, done = 0;
        for (const Piece& piece : pieces_)
            total += piece.source ? piece.source->bytes * uint64_t(piece.copies) : piece.numbers.size();
        const auto append = [&](std::span<const std::byte> bytes) {
            for (; !bytes.empty(); bytes = bytes.subspan(std::min<uint64_t>(piece_bytes, bytes.size()))) {
                report_progress(progress, "upcycling", done, total);
                writer_.append(bytes.first(std::min<uint64_t>(piece_bytes, bytes.size())));
                done += std::min<uint64_t>(piece_bytes, bytes.size());
            }
        };
        for (const Piece& piece : pieces_) {
            for (int copy = 0; copy < piece.copies; ++copy)
                append(piece.source ? piece.source->contents() : std::span<const std::byte>(piece.numbers));
            if (piece.source)
                file_.shard(piece.source->shard).not_needed(piece.source->offset, piece.source->bytes);
        }
        report_progress(progress, "upcycling", done, total);
        writer_.finish();
    }

    static constexpr uint64_t shared_width = 32;  // of qwen2moe's shared expert of zeros

    const gguf::File& file_;
    const UpcycleOptions& options_;
    gguf::Writer writer_;
    Random random_;
    std::string_view from_;
    std::string to_;
    int layers_ = 0, width_ = 0, embedding_ = 0;
    std::vector<Piece> pieces_;
};

}  // namespace

void upcycle(const std::string& dense_path, const std::string& out_path, const UpcycleOptions& options,
             const ProgressCallback& progress) {
    refuse_same_file(dense_path, out_path);
    const gguf::File file = gguf::File::open(dense_path);
    Upcycler(file, out_path, options).run(progress);
}

}  // namespace coterie::convert
