// Files that don't hold what they say: each is a golden model with one thing changed, and is refused with a
// sentence that names it, when it is opened or when its weights are loaded. And what may be missing.
#include <cstring>

#include "../convert/files.h"
#include "base/failure.h"
#include "catch.h"
#include "device/reference/reference_device.h"
#include "gguf/writer.h"
#include "golden.h"

using namespace coterie;

namespace {

struct Change {
    std::function<void(gguf::Writer&)> metadata = [](gguf::Writer&) {};
    std::function<bool(std::string_view)> keep_key = [](std::string_view) { return true; };
    // A tensor's new name; empty: it is left out.
    std::function<std::string(const std::string&)> name = [](const std::string& own) { return own; };
    std::function<void(const std::string&, std::span<float>)> numbers = [](const std::string&,
                                                                           std::span<float>) {};
};

void write_changed(const std::string& model, const std::string& path, const Change& change) {
    const gguf::File file = gguf::File::open(golden::load(model).path);
    gguf::Writer writer(path);
    writer.copy_metadata(file, change.keep_key);
    change.metadata(writer);
    for (const gguf::Tensor& tensor : file.tensors())
        if (const std::string name = change.name(std::string(tensor.name)); !name.empty())
            writer.add_tensor(name, tensor.type, {tensor.shape.data(), size_t(tensor.dimensions)});
    for (const gguf::Tensor& tensor : file.tensors()) {
        if (change.name(std::string(tensor.name)).empty()) continue;
        std::vector<float> numbers(tensor.bytes / sizeof(float));
        std::memcpy(numbers.data(), tensor.data, tensor.bytes);
        change.numbers(std::string(tensor.name), numbers);
        writer.append(std::as_bytes(std::span(numbers)));
    }
    writer.finish();
}

// What loading the changed model says; empty when it loads.
std::string complaint(const std::string& model, const Change& change) {
    const TemporaryFolder folder;
    const std::string path = folder / "changed.gguf";
    write_changed(model, path, change);
    try {
        golden::make_runner(path, [] { return std::unique_ptr<Device>(new ReferenceDevice); });
    } catch (const Failure& failure) {
        CHECK(failure.status() == Status::bad_model);
        return failure.message();
    }
    return {};
}

bool says(const std::string& sentence, std::string_view words) {
    CAPTURE(sentence, words);
    CHECK(sentence.find(words) != std::string::npos);
    return sentence.find(words) != std::string::npos;
}

Change key(const char* name, uint32_t value) {
    Change change;
    change.metadata = [=](gguf::Writer& writer) { writer.set(name, value); };
    return change;
}

Change without_key(std::string_view name) {
    Change change;
    change.keep_key = [=](std::string_view other) { return other != name; };
    return change;
}

Change without(const std::string& tensor) {
    Change change;
    change.name = [=](const std::string& own) { return own == tensor ? std::string() : own; };
    return change;
}

}  // namespace

TEST_CASE("an unchanged copy loads") {
    CHECK(complaint("qwen35moe-b", {}).empty());
}

TEST_CASE("numbers of a delta net that contradict each other, or its tensors") {
    says(complaint("qwen35moe-b", key("qwen35moe.ssm.inner_size", 40)), "inner_size 40");
    says(complaint("qwen35moe-b", key("qwen35moe.ssm.group_count", 4)), "group_count 4");
    says(complaint("qwen35moe-b", key("qwen35moe.ssm.conv_kernel", 3)), "ssm_conv1d.weight has shape");
    says(complaint("qwen35moe-b", key("qwen35moe.attention.head_count", 4)), "attn_q.weight has shape");
    says(complaint("qwen35moe-b", without_key("qwen35moe.ssm.state_size")),
         "'qwen35moe.ssm.state_size' is missing");
    says(complaint("qwen35moe-b", without("blk.2.ssm_a")), "blk.2.ssm_a is missing");
}

TEST_CASE("all that is missing is named at once") {
    Change change;
    change.name = [](const std::string& own) {
        return own.find("ffn_up_exps") != std::string::npos ? std::string() : own;
    };
    const std::string sentence = complaint("qwen35moe-b", change);
    says(sentence, "6 problems");
    says(sentence, "blk.0.ffn_up_exps.weight is missing");
    says(sentence, "blk.5.ffn_up_exps.weight is missing");
}

TEST_CASE("transforms that a converter left out") {
    for (const char* name : {"qwen35moe-b", "qwen35-b", "qwen3next-a"}) {
        Change decays, norms;
        decays.numbers = [](const std::string& tensor, std::span<float> numbers) {
            if (tensor.ends_with("ssm_a"))
                for (float& x : numbers) x = std::log(-x);  // as in the checkpoint
        };
        norms.numbers = [](const std::string& tensor, std::span<float> numbers) {
            if (tensor.ends_with("norm.weight") && !tensor.ends_with("ssm_norm.weight"))
                for (float& x : numbers) x -= 1;
        };
        says(complaint(name, decays), "left out -exp()");
        says(complaint(name, norms), "did not add 1");
    }
}

TEST_CASE("blocks that block_count does not count, and prediction blocks nobody counted") {
    says(complaint("qwen35moe-b", key("qwen35moe.block_count", 5)), "also holds blk.5");
    says(complaint("qwen35moe-b", key("qwen35moe.block_count", 7)), "blk.6.attn_norm.weight is missing");
    // What the prediction block is for is seen by its own tensor where the file does not say it.
    CHECK(complaint("qwen35moe-mtp", without_key("qwen35moe.nextn_predict_layers")).empty());
    says(complaint("qwen35moe-mtp", key("qwen35moe.nextn_predict_layers", 0)), "blk.4.");
}
