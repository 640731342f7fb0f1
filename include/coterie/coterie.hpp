// Coterie for C++17: handles that free themselves and exceptions on the caller's side of the C border.
// Header-only; see coterie.h for what everything means.
#pragma once
#include <algorithm>
#include <cstddef>
#include <exception>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coterie/coterie.h"

namespace coterie {
// The library has classes of these names too; in a program that links the archive they must not meet.
inline namespace wrapper {

class Error : public std::exception {
  public:
    explicit Error(const coterie_error& error) : status_(error.status), message_(error.message) {}
    coterie_status status() const noexcept { return status_; }
    const char* what() const noexcept override { return message_.c_str(); }

  private:
    coterie_status status_;
    std::string message_;
};

// Calls function(&error) and throws what it reports.
template <typename Function>
void check(Function&& function) {
    coterie_error error = COTERIE_ERROR_INIT;
    if (function(&error) != COTERIE_OK) throw Error(error);
}

// Calls function(buffer, capacity, needed, error) as often as it takes to get the whole text.
template <typename Function>
std::string text_of(Function&& function) {
    std::string text(256, '\0');
    for (;;) {
        size_t needed = 0;
        check([&](coterie_error* error) { return function(&text[0], text.size(), &needed, error); });
        const bool whole = needed < text.size();
        text.resize(whole ? needed : needed + 1);
        if (whole) return text;
    }
}

template <typename T, void (*destroy)(T*)>
struct Deleter {
    void operator()(T* handle) const noexcept { destroy(handle); }
};

class Model {
  public:
    explicit Model(const std::string& path, coterie_model_options options = COTERIE_MODEL_OPTIONS_INIT) {
        coterie_model* handle = nullptr;
        check([&](coterie_error* e) { return coterie_model_open(path.c_str(), &options, &handle, e); });
        handle_.reset(handle);
    }
    coterie_model* get() const noexcept { return handle_.get(); }

    coterie_model_info info() const {
        coterie_model_info info = COTERIE_MODEL_INFO_INIT;
        check([&](coterie_error* e) { return coterie_model_get_info(get(), &info, e); });
        return info;
    }
    std::string metadata(const std::string& key) const {
        return text_of([&](char* b, size_t c, size_t* n, coterie_error* e) {
            return coterie_model_metadata(get(), key.c_str(), b, c, n, e);
        });
    }
    std::vector<int32_t> tokenize(std::string_view text, uint32_t flags = COTERIE_ADD_SPECIAL) const {
        std::vector<int32_t> tokens(text.size() + 8);
        size_t needed = 0;
        check([&](coterie_error* e) {
            return coterie_tokenize(get(), text.data(), text.size(), flags, tokens.data(), tokens.size(),
                                    &needed, e);
        });
        if (needed > tokens.size()) {
            tokens.resize(needed);
            check([&](coterie_error* e) {
                return coterie_tokenize(get(), text.data(), text.size(), flags, tokens.data(), tokens.size(),
                                        &needed, e);
            });
        }
        tokens.resize(needed);
        return tokens;
    }
    std::string detokenize(const std::vector<int32_t>& tokens, uint32_t flags = 0) const {
        return text_of([&](char* b, size_t c, size_t* n, coterie_error* e) {
            return coterie_detokenize(get(), tokens.data(), tokens.size(), flags, b, c, n, e);
        });
    }
    std::string render(const std::string& messages_json, const std::string& tools_json = {},
                       coterie_chat_options options = COTERIE_CHAT_OPTIONS_INIT) const {
        return text_of([&](char* b, size_t c, size_t* n, coterie_error* e) {
            return coterie_chat_render(get(), messages_json.c_str(),
                                       tools_json.empty() ? nullptr : tools_json.c_str(), &options, b, c, n,
                                       e);
        });
    }

  private:
    std::unique_ptr<coterie_model, Deleter<coterie_model, coterie_model_destroy>> handle_;
};

class Generation {
  public:
    explicit Generation(coterie_generation* handle) : handle_(handle) {}
    coterie_generation* get() const noexcept { return handle_.get(); }

    // False when nothing came within timeout_ms (negative: for ever). The event's pointers live until the
    // next call.
    bool next(coterie_event& event, int64_t timeout_ms = -1) {
        event = COTERIE_EVENT_INIT;
        check([&](coterie_error* e) { return coterie_generation_next(get(), &event, timeout_ms, e); });
        return event.kind != COTERIE_EVENT_NONE;
    }
    // For loops: over all events up to and without FINISHED. Each lives until the loop's next turn.
    class Iterator {
      public:
        using iterator_category = std::input_iterator_tag;
        using value_type = coterie_event;
        using difference_type = std::ptrdiff_t;
        using pointer = const coterie_event*;
        using reference = const coterie_event&;
        Iterator() = default;
        explicit Iterator(Generation* generation) : generation_(generation) { ++*this; }
        reference operator*() const { return event_; }
        pointer operator->() const { return &event_; }
        Iterator& operator++() {
            generation_->next(event_);
            if (event_.kind == COTERIE_EVENT_FINISHED) generation_ = nullptr;
            return *this;
        }
        void operator++(int) { ++*this; }
        bool operator==(const Iterator& other) const { return generation_ == other.generation_; }
        bool operator!=(const Iterator& other) const { return generation_ != other.generation_; }

      private:
        Generation* generation_ = nullptr;
        coterie_event event_ = COTERIE_EVENT_INIT;
    };
    Iterator begin() { return Iterator(this); }
    Iterator end() { return Iterator(); }
    // All text to the end: of TOKEN and CONTENT events.
    std::string text() {
        std::string result;
        coterie_event event;
        while (next(event) && event.kind != COTERIE_EVENT_FINISHED)
            if (event.kind == COTERIE_EVENT_TOKEN || event.kind == COTERIE_EVENT_CONTENT)
                result.append(event.text, event.length);
        return result;
    }
    void cancel() noexcept { coterie_generation_cancel(get()); }
    std::vector<int32_t> tokens() const {
        size_t needed = 0;
        check([&](coterie_error* e) { return coterie_generation_tokens(get(), nullptr, 0, &needed, e); });
        std::vector<int32_t> tokens(needed);
        size_t now = 0;  // it may have grown
        check([&](coterie_error* e) {
            return coterie_generation_tokens(get(), tokens.data(), tokens.size(), &now, e);
        });
        tokens.resize(std::min(needed, now));
        return tokens;
    }
    Generation fork(coterie_generation_options options = COTERIE_GENERATION_OPTIONS_INIT) {
        coterie_generation* handle = nullptr;
        check([&](coterie_error* e) { return coterie_generation_fork(get(), &options, &handle, e); });
        return Generation(handle);
    }
    void save(const std::string& path) {
        check([&](coterie_error* e) { return coterie_generation_save(get(), path.c_str(), e); });
    }
    coterie_generation_statistics statistics() const {
        coterie_generation_statistics s = COTERIE_GENERATION_STATISTICS_INIT;
        check([&](coterie_error* e) { return coterie_generation_get_statistics(get(), &s, e); });
        return s;
    }

  private:
    std::unique_ptr<coterie_generation, Deleter<coterie_generation, coterie_generation_destroy>> handle_;
};

class Engine {
  public:
    explicit Engine(const Model& model, coterie_engine_options options = COTERIE_ENGINE_OPTIONS_INIT) {
        coterie_engine* handle = nullptr;
        check([&](coterie_error* e) { return coterie_engine_create(model.get(), &options, &handle, e); });
        handle_.reset(handle);
        model_info_ = model.info();
    }
    coterie_engine* get() const noexcept { return handle_.get(); }

    Generation generate(const std::vector<int32_t>& tokens,
                        coterie_generation_options options = COTERIE_GENERATION_OPTIONS_INIT) {
        coterie_generation* handle = nullptr;
        check([&](coterie_error* e) {
            return coterie_generate(get(), tokens.data(), tokens.size(), &options, &handle, e);
        });
        return Generation(handle);
    }
    Generation complete(const std::string& prompt,
                        coterie_generation_options options = COTERIE_GENERATION_OPTIONS_INIT) {
        coterie_generation* handle = nullptr;
        check(
            [&](coterie_error* e) { return coterie_complete(get(), prompt.c_str(), &options, &handle, e); });
        return Generation(handle);
    }
    Generation chat(const std::string& messages_json, const std::string& tools_json = {},
                    coterie_chat_options chat_options = COTERIE_CHAT_OPTIONS_INIT,
                    coterie_generation_options options = COTERIE_GENERATION_OPTIONS_INIT) {
        coterie_generation* handle = nullptr;
        check([&](coterie_error* e) {
            return coterie_chat(get(), messages_json.c_str(),
                                tools_json.empty() ? nullptr : tools_json.c_str(), &chat_options, &options,
                                &handle, e);
        });
        return Generation(handle);
    }
    // Continues what Generation::save wrote.
    Generation restore(const std::string& path,
                       coterie_generation_options options = COTERIE_GENERATION_OPTIONS_INIT) {
        coterie_generation* handle = nullptr;
        check([&](coterie_error* e) {
            return coterie_engine_restore(get(), path.c_str(), &options, &handle, e);
        });
        return Generation(handle);
    }
    // One embedding for each text.
    std::vector<std::vector<float>> embed(const std::vector<std::string>& texts,
                                          coterie_reading_options options = COTERIE_READING_OPTIONS_INIT) {
        const std::vector<coterie_input> inputs = inputs_of(texts);
        const size_t width = size_t(options.dimensions > 0 ? options.dimensions : info().embedding);
        std::vector<float> all(texts.size() * width);
        check([&](coterie_error* e) {
            return coterie_embed(get(), inputs.data(), inputs.size(), &options, all.data(), all.size(), nullptr, e);
        });
        std::vector<std::vector<float>> result;
        for (size_t i = 0; i < texts.size(); ++i)
            result.emplace_back(all.begin() + long(i * width), all.begin() + long((i + 1) * width));
        return result;
    }
    // Logits after each token from number `first` on, row after row.
    std::vector<float> logits(const std::vector<int32_t>& tokens, size_t first = 0,
                              coterie_reading_options options = COTERIE_READING_OPTIONS_INIT) {
        const size_t rows = tokens.size() - std::min(first, tokens.size());
        std::vector<float> all(rows * size_t(info().vocabulary));
        check([&](coterie_error* e) {
            return coterie_read_logits(get(), tokens.data(), tokens.size(), first, &options, all.data(), all.size(),
                                       e);
        });
        return all;
    }
    // The logarithm of each token's probability, text by text.
    std::vector<std::vector<float>> score(const std::vector<std::string>& texts,
                                          coterie_reading_options options = COTERIE_READING_OPTIONS_INIT) {
        const std::vector<coterie_input> inputs = inputs_of(texts);
        std::vector<size_t> ends(texts.size());
        size_t needed = 0;
        std::vector<float> all;
        for (int pass = 0; pass < 2; ++pass, all.resize(needed))
            check([&](coterie_error* e) {
                return coterie_score(get(), inputs.data(), inputs.size(), &options, all.data(), all.size(),
                                     ends.data(), &needed, e);
            });
        std::vector<std::vector<float>> result;
        for (size_t i = 0; i < texts.size(); ++i)
            result.emplace_back(all.begin() + long(i ? ends[i - 1] : 0), all.begin() + long(ends[i]));
        return result;
    }
    coterie_engine_statistics statistics() const {
        coterie_engine_statistics s = COTERIE_ENGINE_STATISTICS_INIT;
        check([&](coterie_error* e) { return coterie_engine_get_statistics(get(), &s, e); });
        return s;
    }
    std::string describe(int32_t format = COTERIE_TEXT) const {
        return text_of([&](char* b, size_t c, size_t* n, coterie_error* e) {
            return coterie_engine_describe(get(), format, b, c, n, e);
        });
    }

  private:
    static std::vector<coterie_input> inputs_of(const std::vector<std::string>& texts) {
        std::vector<coterie_input> inputs;
        for (const std::string& text : texts) inputs.push_back({text.data(), text.size(), nullptr, 0});
        return inputs;
    }
    coterie_model_info info() const { return model_info_; }

    coterie_model_info model_info_ = COTERIE_MODEL_INFO_INIT;
    std::unique_ptr<coterie_engine, Deleter<coterie_engine, coterie_engine_destroy>> handle_;
};

}  // namespace wrapper
}  // namespace coterie
