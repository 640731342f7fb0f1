// The library's handles as Python objects. Each may be closed at any time from any thread; the library's
// object goes when the last call that uses it has returned.
#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "waiting.h"

namespace binding {

// What Python sees of an engine's log and events; called on the engine's threads.
struct Listener {
    py::object log = py::none(), events = py::none();
    ~Listener();
};

template <typename T>
using Handle = std::shared_ptr<T>;

class Model {
  public:
    Model(const std::string& path, const py::object& progress);
    Handle<coterie_model> handle() const;  // raises when closed
    void close();

  private:
    Handle<coterie_model> handle_;
};

class Engine {
  public:
    Engine(const Model& model, const py::dict& options, const py::object& log, const py::object& events,
           const py::object& progress);
    ~Engine();
    Handle<coterie_engine> handle() const;
    const std::shared_ptr<Listener>& listener() const { return listener_; }
    void close();

  private:
    std::shared_ptr<Listener> listener_;
    Handle<coterie_engine> handle_;
};

struct Event {
    int32_t kind = 0, token = 0, call = 0, finish_reason = 0;
    py::str text, id, name;
    float logprob = 0;
    std::vector<std::pair<int32_t, float>> top;
    int64_t done = 0, total = 0;
};

class Generation {
  public:
    // The listener of its engine, which it keeps alive.
    Generation(coterie_generation* handle, std::shared_ptr<Listener> listener);
    ~Generation();
    Generation(const Generation&) = delete;
    Generation& operator=(const Generation&) = delete;

    // The next event, or None after timeout_ms (negative: for ever). Ctrl-C cancels the generation and is
    // raised.
    py::object next(int64_t timeout_ms);
    void cancel();
    void close();
    Handle<coterie_generation> handle() const;
    const std::shared_ptr<Listener>& listener() const { return listener_; }

  private:
    std::shared_ptr<Listener> listener_;
    Handle<coterie_generation> handle_;
    std::shared_ptr<std::mutex> reading_ = std::make_shared<std::mutex>();  // one reader at a time
};

// Ends everything before the interpreter goes: see waiting.h.
void shutdown();

// The struct's fields from a dict of the same names; texts live in `texts`.
struct Texts {
    std::vector<std::unique_ptr<std::string>> kept;
    std::vector<const char*> stop;
    std::vector<coterie_bias> bias;
    const char* keep(const py::handle& text);
};
coterie_generation_options generation_options(const py::dict& options, Texts& texts);
coterie_chat_options chat_options(const py::dict& options, Texts& texts);
coterie_engine_options engine_options(const py::dict& options, Texts& texts);
coterie_plan_request plan_request(const py::dict& options, Texts& texts);
coterie_reading_options reading_options(const py::dict& options);

}  // namespace binding
