// Forks share what is computed and go on as a fresh prompt would; saved sequences come back on another
// engine, and nothing damaged or foreign does.
#include <cstdio>
#include <fstream>

#include "catch.h"
#include "engine/sequence_file.h"
#include "stage.h"

using namespace coterie;
using stage::Stage;

namespace {

const char* const some[] = {"llama", "gemma3", "gpt-oss-a", "qwen3moe", "qwen35-a", "qwen3next-b"};

std::vector<int32_t> joined(std::vector<int32_t> a, const std::vector<int32_t>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

SequenceBinding binding_of(Stage& s) {
    SequenceBinding b;
    b.model = model_fingerprint(s.model());
    b.page_tokens = s.runner().shape().page_tokens;
    b.vocabulary = s.model().numbers().vocabulary;
    b.page_bytes = s.runner().page_bytes();
    b.state_bytes = s.runner().state_bytes();
    b.layout = "as in the test";
    return b;
}

struct TemporaryFile {
    std::string path;
    explicit TemporaryFile(const std::string& name) : path("engine-test-" + name + ".sequence") {}
    ~TemporaryFile() { std::remove(path.c_str()); }
    std::string read() const {
        std::ifstream file(path, std::ios::binary);
        return {std::istreambuf_iterator<char>(file), {}};
    }
    void write(const std::string& text) const {
        std::ofstream(path, std::ios::binary).write(text.data(), long(text.size()));
    }
};

Status status_of(const std::string& path, const SequenceBinding& binding) {
    try {
        read_sequence_file(path, binding);
        return Status::ok;
    } catch (const Failure& failure) {
        return failure.status();
    }
}

}  // namespace

TEST_CASE("a fork in the middle of an answer goes on like a fresh prompt, sharing its pages") {
    for (const char* name : some)
        for (const bool reuse : {true, false}) {
            CAPTURE(name, reuse);
            stage::Shape shape;
            shape.reuse_prefixes = reuse;
            Stage s(name, shape);
            stage::Oracle oracle(name);
            const golden::Case c = golden::load(name);
            const auto parent = s.submit(s.greedy(c.prompt, 16));
            for (int i = 0; i < 5; ++i) s.step();
            const std::vector<int32_t> so_far = parent->tokens();
            REQUIRE(so_far.size() > c.prompt.size());
            const int64_t held = s.scheduler().statistics().pages_held;
            const auto child = s.fork(*parent, s.greedy({}, 10));
            // The last page is the only one that is not shared.
            CHECK(s.scheduler().statistics().pages_held == held + 1);
            CHECK(child->statistics().cached_tokens == int64_t(so_far.size()) - 1);
            GenerationRequest other = s.greedy({}, 6);
            other.sampling.bias.emplace_back(c.greedy[so_far.size() - c.prompt.size()], -INFINITY);
            const auto branch = s.fork(*parent, std::move(other));
            s.run();
            const auto answer = stage::take(*parent);
            CHECK(answer == std::vector<int32_t>(c.greedy.begin(), c.greedy.begin() + 16));
            CHECK(stage::compare(stage::take(*child), oracle.answer(so_far, 10)) > 0);
            // A branch that may not take the parent's token differs, and disturbs nobody.
            const auto turned = stage::take(*branch);
            REQUIRE(turned.size() == 6);
            CHECK(turned[0] != c.greedy[so_far.size() - c.prompt.size()]);
            CHECK(stage::compare({turned.begin() + 1, turned.end()},
                                 oracle.answer(joined(so_far, {turned[0]}), 5)) >= 0);
        }
}

TEST_CASE("forks before the first token share the prompt's computation") {
    for (const char* name : some) {
        CAPTURE(name);
        Stage s(name, {});
        const golden::Case c = golden::load(name);
        const auto parent = s.submit(s.greedy(c.prompt, 8));
        std::vector<std::shared_ptr<Generation>> all = {parent};
        for (int i = 0; i < 3; ++i) all.push_back(s.fork(*parent, s.greedy({}, 8)));
        s.run();
        for (const auto& g : all)
            CHECK(stage::take(*g) == std::vector<int32_t>(c.greedy.begin(), c.greedy.begin() + 8));
        // Two found a place beside their parent at once: nothing of their prompt was computed again.
        CHECK(all[1]->statistics().cached_tokens == int64_t(c.prompt.size()));
        CHECK(all[2]->statistics().cached_tokens == int64_t(c.prompt.size()));
    }
}

TEST_CASE("forks of what has ended, was cancelled or is driven out") {
    Stage s("qwen3moe", {});
    stage::Oracle oracle("qwen3moe");
    const golden::Case c = golden::load("qwen3moe");
    const auto ended = s.submit(s.greedy(c.prompt, 4));
    s.run();
    const auto child = s.fork(*ended, s.greedy({}, 4));
    CHECK(child->answer_begin() == int64_t(c.prompt.size()));
    s.run();
    CHECK(joined(stage::take(*ended), stage::take(*child)) ==
          std::vector<int32_t>(c.greedy.begin(), c.greedy.begin() + 8));

    const auto parent = s.submit(s.greedy(c.long_prompt, 4));
    const auto orphan = s.fork(*parent, s.greedy({}, 4));
    parent->cancel();
    s.run();
    CHECK(parent->reason() == FinishReason::cancelled);
    CHECK(stage::compare(stage::take(*orphan), oracle.answer(c.long_prompt, 4)) > 0);
}

TEST_CASE("a saved sequence comes back elsewhere with what was computed of it") {
    for (const char* name : some) {
        CAPTURE(name);
        const golden::Case c = golden::load(name);
        stage::Oracle oracle(name);
        const TemporaryFile file(name);
        std::vector<int32_t> tokens;
        {
            Stage s(name, {});
            const auto g = s.submit(s.greedy(c.long_prompt, 20));
            s.run();
            tokens = g->tokens();
            write_sequence_file(file.path, binding_of(s), s.scheduler().save(*g));
            s.scheduler().check();
        }
        Stage s(name, {});
        const SavedSequence saved = read_sequence_file(file.path, binding_of(s));
        CHECK(saved.tokens == tokens);
        s.scheduler().load(saved);
        s.scheduler().load(saved);  // once more changes nothing
        s.scheduler().check();
        const auto g = s.submit(s.greedy(saved.tokens, 10));
        s.run();
        CHECK(stage::compare(stage::take(*g), oracle.answer(tokens, 10)) > 0);
        // All but the last page, or the one before it where a state is needed too.
        CHECK(g->statistics().cached_tokens >= int64_t(tokens.size()) - 2 * 8);

        stage::Shape small;
        small.pages = 5;
        small.context_tokens = 32;
        Stage narrow(name, small);
        narrow.scheduler().load(saved);  // as far as there is room
        narrow.scheduler().check();
    }
}

TEST_CASE("damaged and foreign files are refused") {
    Stage s("qwen35-b", {});
    const auto g = s.submit(s.greedy(golden::load("qwen35-b").prompt, 12));
    s.run();
    const TemporaryFile file("damage");
    const SequenceBinding binding = binding_of(s);
    write_sequence_file(file.path, binding, s.scheduler().save(*g));
    const std::string whole = file.read();
    CHECK(status_of(file.path, binding) == Status::ok);

    SequenceBinding other = binding;
    other.model[1] ^= 1;
    CHECK(status_of(file.path, other) == Status::invalid_argument);
    other = binding;
    other.layout = "another";
    CHECK(status_of(file.path, other) == Status::invalid_argument);
    other = binding;
    other.vocabulary = 1;
    CHECK(status_of(file.path, other) == Status::bad_model);
    CHECK(status_of("no-such.sequence", binding) == Status::not_found);
    CHECK(model_fingerprint(*Model::open(golden::load("qwen35-a").path)) != binding.model);

    std::mt19937 random(6);
    for (int i = 0; i < 200; ++i) {
        std::string damaged = whole;
        damaged[i < 90 ? size_t(i) : random() % damaged.size()] ^= char(1 << random() % 8);
        file.write(damaged);
        CHECK(status_of(file.path, binding) != Status::ok);
        file.write(whole.substr(0, random() % whole.size()));
        CHECK(status_of(file.path, binding) != Status::ok);
    }
    CHECK_THROWS_AS(write_sequence_file("no-such-folder/x", binding, {}), Failure);
}
