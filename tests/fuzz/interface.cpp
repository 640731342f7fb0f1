// Any bytes as a series of calls of the C interface, right and wrong ones in any order, on a few models,
// engines and generations: never a crash, a hang, a leak, or a refusal without a sentence.
#include <coterie/coterie.h>
#include <coterie/coterie_experimental.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr size_t places = 3;
const char* const paths[] = {TEST_DATA "/golden/qwen3.gguf", TEST_DATA "/golden/qwen35-b.gguf",
                             "/nowhere/x.gguf", "/dev/null", ""};
const char* const texts[] = {"Hello", "", "<|im_start|>user", "\xff\xfe broken",
                             "a longer text, with several words in it"};
const char* const jsons[] = {
    R"([{"role":"user","content":"Hi"}])",
    "[]",
    "{",
    "null",
    R"([{"role":1}])",
    R"([{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}])"};
const char* const words[] = {"cpu", "cpu:2", "reference", "cuda:9", "f16",   "q8_0",
                             "f32", "layer", "tensor",    "",       "4x3090"};

int check_status(coterie_status status, const coterie_error& error, bool given) {
    if (status < COTERIE_OK || status > COTERIE_INTERNAL) std::abort();
    if (status == COTERIE_INTERNAL) std::abort();  // a contradiction is a finding
    if (given && (error.status != status || (status != COTERIE_OK && error.message[0] == 0))) std::abort();
    if (std::memchr(error.message, 0, sizeof error.message) == nullptr) std::abort();
    return status;
}

class Calls {
  public:
    Calls(const uint8_t* data, size_t size) : data_(data), left_(size) {}
    ~Calls() {
        for (auto& g : generations_) coterie_generation_destroy(g);
        for (auto& e : engines_) coterie_engine_destroy(e);
        for (auto& m : models_) coterie_model_destroy(m);
    }
    void run() {
        for (int i = 0; i < 40 && left_ > 0; ++i) call();
    }

  private:
    uint8_t byte() {
        if (left_ == 0) return 0;
        --left_;
        return *data_++;
    }
    template <typename T, size_t n>
    const T& one(const T (&list)[n]) {
        return list[byte() % n];
    }
    // NULL now and then.
    template <typename T>
    T* or_null(T* pointer) {
        return byte() % 16 == 0 ? nullptr : pointer;
    }
    const char* word_or_null() { return byte() % 3 == 0 ? one(words) : nullptr; }
    int32_t number() {
        static const int32_t numbers[] = {0, 1, 2, 3, 5, 64, 100, -1, -100, 1 << 20, INT32_MAX, INT32_MIN};
        return one(numbers);
    }
    int32_t small() { return byte() % 8 == 0 ? number() : byte() % 4; }
    float real() {
        static const float reals[] = {
            0, 0, 0.5f, 1, 2, -1, 1e30f, -1e30f, 1e-30f, __builtin_nanf(""), __builtin_inff()};
        return one(reals);
    }
    coterie_model*& model() { return models_[byte() % places]; }
    coterie_engine*& engine() { return engines_[byte() % places]; }
    coterie_generation*& generation() { return generations_[byte() % places]; }
    template <typename Options>
    void spoil_size(Options& o) {
        // Never more than is there: what a host says it has, the library reads.
        if (byte() % 32 == 0) o.struct_size = uint32_t(byte()) * 7 % (uint32_t(sizeof o) + 1);
    }
    std::vector<int32_t> tokens() {
        std::vector<int32_t> t(byte() % 40);
        for (int32_t& token : t) token = byte() % 64 == 0 ? number() : byte();
        return t;
    }
    // function(error) with an error struct, none, or one of another size.
    template <typename Function>
    int checked(Function&& function) {
        coterie_error error = COTERIE_ERROR_INIT;
        const uint8_t how = byte() % 16;
        if (how == 0) return check_status(function(nullptr), error, false);
        if (how == 1) error.struct_size = byte();
        return check_status(function(&error), error, how > 1);
    }
    // function(buffer, capacity, needed, error) into a buffer of any size.
    template <typename Function>
    void text(Function&& function) {
        std::vector<char> buffer(byte() * 4 + 1, 'x');
        const size_t capacity = byte() % 8 == 0 ? 0 : buffer.size();
        size_t needed = 0;
        char* to = byte() % 16 == 0 ? nullptr : buffer.data();
        const int status =
            checked([&](coterie_error* e) { return function(to, capacity, or_null(&needed), e); });
        if (status == COTERIE_OK && to && capacity > 0 && !std::memchr(to, 0, capacity)) std::abort();
    }
    int32_t format() { return byte() % 8 == 0 ? number() : byte() % 2; }

    coterie_generation_options generation_options() {
        coterie_generation_options o = COTERIE_GENERATION_OPTIONS_INIT;
        o.flags = byte() % 128;
        o.max_tokens = byte() % 8 == 0 ? number() : 1 + byte() % 6;
        if (byte() % 4 == 0) {
            o.temperature = real();
            o.top_p = real();
            o.min_p = real();
            o.typical_p = real();
            o.top_k = number();
            o.repeat_penalty = real();
            o.presence_penalty = real();
            o.frequency_penalty = real();
            o.penalty_tokens = number();
        }
        o.top_logprobs = small();
        o.seed = byte();
        static const char* stops[2] = {"e", nullptr};
        if (byte() % 4 == 0) {
            o.stop = or_null(stops);
            o.stop_count = byte() % 3;
        }
        static const coterie_bias biases[2] = {{5, 1.0f}, {-7, -__builtin_inff()}};
        if (byte() % 8 == 0) {
            o.bias = or_null(biases);
            o.bias_count = byte() % 3;
        }
        if (byte() % 8 == 0) o.json_schema = byte() % 2 ? R"({"enum":[1,2]})" : one(jsons);
        if (byte() % 16 == 0) o.grammar = byte() % 2 ? "root ::= [a-z]+" : one(texts);
        o.priority = small();
        o.time_limit_ms = byte() % 8 == 0 ? number() : 0;
        if (byte() % 16 == 0) o.tool_choice = byte() % 2 ? "required" : one(texts);
        spoil_size(o);
        return o;
    }
    coterie_reading_options reading_options() {
        coterie_reading_options o = COTERIE_READING_OPTIONS_INIT;
        o.pooling = small();
        o.raw = byte() % 2;
        o.dimensions = byte() % 4 == 0 ? number() : 0;
        o.truncate = byte() % 2;
        o.priority = small();
        o.time_limit_ms = byte() % 8 == 0 ? number() : 0;
        if (byte() % 4 == 0)
            o.progress = [](void* user, const char*, uint64_t, uint64_t) { return user ? 1 : 0; };
        o.progress_user = byte() % 2 ? this : nullptr;
        spoil_size(o);
        return o;
    }
    coterie_engine_options engine_options() {
        coterie_engine_options o = COTERIE_ENGINE_OPTIONS_INIT;
        o.threads = 1;
        o.context_tokens = 64 + byte() % 100;
        o.parallel = small();
        o.step_rows = small();
        if (byte() % 2) o.devices = "reference";
        if (byte() % 8 == 0) {
            o.devices = word_or_null();
            o.isa = word_or_null();
            o.key_type = word_or_null();
            o.value_type = word_or_null();
            o.mode = word_or_null();
        }
        o.queue = small();
        o.no_prefix_reuse = byte() % 2;
        if (byte() % 16 == 0) o.context_tokens = number();
        // Sizes that a test's memory can't hold are refused by other tests.
        o.parallel = o.parallel > 4 ? 4 : o.parallel;
        o.step_rows = o.step_rows > 64 ? 64 : o.step_rows;
        o.context_tokens = o.context_tokens > 4096 ? 4096 : o.context_tokens;
        if (byte() % 4 == 0) o.log = [](void*, int32_t, const char*) { return 0; };
        if (byte() % 4 == 0) o.events = [](void* user, const coterie_engine_event*) { return user ? 1 : 0; };
        o.events_user = byte() % 8 == 0 ? this : nullptr;
        spoil_size(o);
        return o;
    }
    coterie_chat_options chat_options() {
        coterie_chat_options o = COTERIE_CHAT_OPTIONS_INIT;
        o.thinking = small();
        if (byte() % 8 == 0) o.reasoning_effort = one(texts);
        if (byte() % 8 == 0) o.chat_template = byte() % 2 ? "{{ messages[0].content }}" : one(texts);
        if (byte() % 8 == 0) o.variables_json = one(jsons);
        o.no_generation_prompt = byte() % 2;
        o.continue_last_message = byte() % 8 == 0;
        spoil_size(o);
        return o;
    }
    // A place for a new handle: the old one goes.
    template <typename T>
    T** place(T*& slot, void (*destroy)(T*)) {
        destroy(slot);
        slot = nullptr;
        return or_null(&slot);
    }
    void start();
    void read();
    void ask_model();
    void call();

    const uint8_t* data_;
    size_t left_;
    coterie_model* models_[places] = {};
    coterie_engine* engines_[places] = {};
    coterie_generation* generations_[places] = {};
};

void Calls::start() {
    coterie_engine* const e = engine();
    const coterie_generation_options o = generation_options();
    const coterie_generation_options* const given = or_null(&o);
    const uint8_t how = byte() % 4;
    if (how == 3) {
        coterie_generation* const parent = generation();
        coterie_generation* fork = nullptr;
        checked([&](coterie_error* err) { return coterie_generation_fork(parent, given, &fork, err); });
        coterie_generation_destroy(fork);
        return;
    }
    coterie_generation** const to = place(generation(), coterie_generation_destroy);
    if (how == 0) {
        const std::vector<int32_t> t = tokens();
        checked([&](coterie_error* err) {
            return coterie_generate(e, or_null(t.data()), t.size(), given, to, err);
        });
    } else if (how == 1) {
        const char* const prompt = or_null(one(texts));
        checked([&](coterie_error* err) { return coterie_complete(e, prompt, given, to, err); });
    } else {
        const coterie_chat_options c = chat_options();
        const char* const messages = or_null(one(jsons));
        const char* const tools = byte() % 2 ? one(jsons) : nullptr;
        checked([&](coterie_error* err) {
            return coterie_chat(e, messages, tools, or_null(&c), given, to, err);
        });
    }
}

void Calls::read() {
    coterie_engine* const e = engine();
    const coterie_reading_options o = reading_options();
    const coterie_reading_options* const given = or_null(&o);
    const std::vector<int32_t> t = tokens();
    std::vector<coterie_input> inputs;
    for (int i = byte() % 4; i > 0; --i) {
        const char* const words_of = one(texts);
        inputs.push_back(byte() % 2 ? coterie_input{words_of, std::strlen(words_of), nullptr, 0}
                                    : coterie_input{nullptr, 0, t.data(), t.size()});
    }
    std::vector<float> out(byte() % 4 == 0 ? byte() : size_t(1) << 15);
    const coterie_input* const all = or_null(inputs.data());
    switch (byte() % 3) {
        case 0: {
            int64_t used = 0;
            checked([&](coterie_error* err) {
                return coterie_embed(e, all, inputs.size(), given, or_null(out.data()), out.size(),
                                     or_null(&used), err);
            });
            break;
        }
        case 1: {
            const size_t first = byte() % 4 == 0 ? size_t(number()) : byte() % 8;
            checked([&](coterie_error* err) {
                return coterie_read_logits(e, or_null(t.data()), t.size(), first, given, out.data(),
                                           out.size(), err);
            });
            break;
        }
        default: {
            size_t ends[4] = {}, needed = 0;
            const size_t capacity = byte() % 4 == 0 ? 0 : out.size();
            checked([&](coterie_error* err) {
                return coterie_score(e, all, inputs.size(), given, out.data(), capacity, or_null(ends),
                                     &needed, err);
            });
        }
    }
}

void Calls::ask_model() {
    coterie_model* const m = model();
    switch (byte() % 8) {
        case 0: {
            coterie_model_info info = COTERIE_MODEL_INFO_INIT;
            spoil_size(info);
            checked([&](coterie_error* e) { return coterie_model_get_info(m, or_null(&info), e); });
            break;
        }
        case 1:
            text([&](char* b, size_t c, size_t* n, coterie_error* e) {
                return coterie_model_metadata(m, byte() % 2 ? "tokenizer.ggml.tokens" : one(texts), b, c, n,
                                              e);
            });
            break;
        case 2:
            text([&](char* b, size_t c, size_t* n, coterie_error* e) {
                return coterie_model_sampling_defaults(m, b, c, n, e);
            });
            break;
        case 3: {
            const char* const t = one(texts);
            std::vector<int32_t> out(byte() % 16);
            size_t needed = 0;
            checked([&](coterie_error* e) {
                return coterie_tokenize(m, t, std::strlen(t), byte(), out.data(), out.size(),
                                        or_null(&needed), e);
            });
            break;
        }
        case 4: {
            const std::vector<int32_t> t = tokens();
            text([&](char* b, size_t c, size_t* n, coterie_error* e) {
                return coterie_detokenize(m, t.data(), t.size(), byte(), b, c, n, e);
            });
            break;
        }
        case 5:
            coterie_token_is_end(m, number());
            break;
        case 6: {
            const coterie_chat_options o = chat_options();
            const char* const messages = or_null(one(jsons));
            const char* const tools = byte() % 2 ? one(jsons) : nullptr;
            text([&](char* b, size_t c, size_t* n, coterie_error* e) {
                return coterie_chat_render(m, messages, tools, or_null(&o), b, c, n, e);
            });
            break;
        }
        default: {
            coterie_plan_request r = COTERIE_PLAN_REQUEST_INIT;
            r.parallel = small();
            r.context_tokens = number();
            r.machine = word_or_null();
            r.devices = word_or_null();
            r.mode = word_or_null();
            r.key_type = word_or_null();
            r.step_rows = small();
            r.host_experts = byte() % 2;
            spoil_size(r);
            int32_t fits = 0;
            text([&](char* b, size_t c, size_t* n, coterie_error* e) {
                return coterie_plan(m, or_null(&r), format(), or_null(&fits), b, c, n, e);
            });
        }
    }
}

void Calls::call() {
    switch (byte() % 16) {
        case 0: {
            coterie_model** const to = place(model(), coterie_model_destroy);
            const char* const path = or_null(byte() % 2 ? paths[byte() % 2] : one(paths));
            coterie_model_options o = COTERIE_MODEL_OPTIONS_INIT;
            spoil_size(o);
            checked([&](coterie_error* e) { return coterie_model_open(path, or_null(&o), to, e); });
            break;
        }
        case 1:
        case 2: {
            const coterie_engine_options o = engine_options();
            coterie_model* const m = model();
            coterie_engine** const to = place(engine(), coterie_engine_destroy);
            checked([&](coterie_error* e) { return coterie_engine_create(m, &o, to, e); });
            break;
        }
        case 3:
        case 4:
        case 5:
            start();
            break;
        case 6:
        case 7: {
            coterie_generation* const g = generation();
            coterie_event event = COTERIE_EVENT_INIT;
            spoil_size(event);
            for (int i = byte() % 12; i >= 0; --i) {
                // Not for ever: with a limit in the far future that would be one.
                const int64_t wait = byte() % 4 == 0 ? 0 : 20;
                if (checked([&](coterie_error* e) {
                        return coterie_generation_next(g, or_null(&event), wait, e);
                    }))
                    break;
                if (event.struct_size == sizeof event && event.text && event.text[event.length] != 0)
                    std::abort();
            }
            break;
        }
        case 8:
            if (byte() % 2)
                coterie_generation_cancel(generation());
            else
                place(generation(), coterie_generation_destroy);
            break;
        case 9:
            place(engine(), coterie_engine_destroy);  // its generations go on
            break;
        case 10:
            place(model(), coterie_model_destroy);
            break;
        case 11:
            read();
            break;
        case 12:
            ask_model();
            break;
        case 13: {
            coterie_engine* const e = engine();
            coterie_engine_statistics s = COTERIE_ENGINE_STATISTICS_INIT;
            spoil_size(s);
            coterie_engine_state(e);
            checked([&](coterie_error* err) { return coterie_engine_get_statistics(e, or_null(&s), err); });
            text([&](char* b, size_t c, size_t* n, coterie_error* err) {
                return coterie_engine_describe(e, format(), b, c, n, err);
            });
            break;
        }
        case 14: {
            coterie_generation* const g = generation();
            coterie_generation_statistics s = COTERIE_GENERATION_STATISTICS_INIT;
            spoil_size(s);
            checked([&](coterie_error* e) { return coterie_generation_get_statistics(g, or_null(&s), e); });
            int32_t out[8];
            size_t needed = 0;
            checked(
                [&](coterie_error* e) { return coterie_generation_tokens(g, out, 8, or_null(&needed), e); });
            break;
        }
        default: {
            static const std::string file = "/tmp/coterie-fuzz-" + std::to_string(uint64_t(std::rand()));
            coterie_generation* const g = generation();
            checked([&](coterie_error* e) {
                return coterie_generation_save(g, byte() % 8 == 0 ? "/nowhere/saved" : file.c_str(), e);
            });
            coterie_engine* const e = engine();
            const coterie_generation_options o = generation_options();
            coterie_generation** const to = place(generation(), coterie_generation_destroy);
            checked([&](coterie_error* err) { return coterie_engine_restore(e, file.c_str(), &o, to, err); });
            std::remove(file.c_str());
            text([&](char* b, size_t c, size_t* n, coterie_error* err) {
                return coterie_devices(format(), b, c, n, err);
            });
        }
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    Calls(data, size).run();
    return 0;
}
