#include "handles.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <set>

namespace binding {
namespace {

// All that is open, for shutdown(). Only touched with the interpreter's lock.
std::set<Engine*>& engines() {
    static std::set<Engine*>& all = *new std::set<Engine*>;  // outlives every object
    return all;
}
std::set<Generation*>& generations() {
    static std::set<Generation*>& all = *new std::set<Generation*>;
    return all;
}

bool shutting_down = false;  // on the thread that ends the interpreter

// Destroying may wait for a step, so the lock is given away. Others than shutdown() may not do so at the
// interpreter's end and leave the object to the process's.
template <typename T>
void drop(Handle<T>& handle) {
    Handle<T> last = std::move(handle);
    handle.reset();
    if (!last) return;
    if (closing && !shutting_down) {
        new Handle<T>(std::move(last));
        return;
    }
    const Busy busy;
    const Inside inside;
    last.reset();
}

template <typename T>
Handle<T> open_or_raise(const Handle<T>& handle, const char* message) {
    if (!handle) raise(COTERIE_INVALID_ARGUMENT, message);
    return handle;
}

// Python's end of a callback: function() runs with the lock, and any exception is thrown away, for there is
// nobody to raise it to.
template <typename Function>
void tell(Function&& function) {
    if (closing) return;
    const py::gil_scoped_acquire lock;
    try {
        function();
    } catch (py::error_already_set& error) {
        error.discard_as_unraisable("a callback of coterie.Engine");
    }
}

py::str text_of(const char* text, size_t length) {
    return py::reinterpret_steal<py::str>(PyUnicode_DecodeUTF8(text, Py_ssize_t(length), "replace"));
}

int on_log(void* user, int32_t level, const char* line) {
    tell([&] { static_cast<Listener*>(user)->log(level, text_of(line, std::strlen(line))); });
    return 0;
}

int on_event(void* user, const coterie_engine_event* event) {
    tell([&] {
        static_cast<Listener*>(user)->events(event->kind, event->state,
                                             text_of(event->message, std::strlen(event->message)),
                                             event->done, event->total);
    });
    return 0;
}

Event event_of(const coterie_event& e) {
    Event event;
    event.kind = e.kind;
    event.token = e.token;
    event.call = e.call;
    event.finish_reason = e.finish_reason;
    event.text = text_of(e.text ? e.text : "", e.text ? e.length : 0);
    if (e.id && *e.id) event.id = py::str(e.id);
    if (e.name && *e.name) event.name = py::str(e.name);
    event.logprob = e.logprob;
    for (size_t i = 0; i < e.top_count; ++i) event.top.emplace_back(e.top[i].token, e.top[i].logprob);
    event.done = e.done;
    event.total = e.total;
    return event;
}

}  // namespace

// The last reference may go on a thread without the lock.
Listener::~Listener() {
    if (closing) {  // what Python's end will free
        log.release();
        events.release();
        return;
    }
    const py::gil_scoped_acquire lock;
    log = py::object();
    events = py::object();
}

Model::Model(const std::string& path, const py::object& progress) {
    coterie_model* model = nullptr;
    call_long(progress, [&](coterie_progress_fn tell, void* user, coterie_error* error) {
        coterie_model_options o = COTERIE_MODEL_OPTIONS_INIT;
        o.progress = tell;
        o.progress_user = user;
        return coterie_model_open(path.c_str(), &o, &model, error);
    });
    handle_ = Handle<coterie_model>(model, coterie_model_destroy);
}

Handle<coterie_model> Model::handle() const {
    return open_or_raise(handle_, "the model is closed");
}
void Model::close() {
    drop(handle_);
}

Engine::Engine(const Model& model, const py::dict& options, const py::object& log, const py::object& events,
               const py::object& progress)
    : listener_(std::make_shared<Listener>()) {
    Texts texts;
    coterie_engine_options o = engine_options(options, texts);
    listener_->log = log;
    listener_->events = events;
    if (!log.is_none()) o.log = on_log, o.log_user = listener_.get();
    if (!events.is_none()) o.events = on_event, o.events_user = listener_.get();
    const Handle<coterie_model> of = model.handle();
    coterie_engine* engine = nullptr;
    call_long(progress, [&](coterie_progress_fn tell, void* user, coterie_error* error) {
        o.progress = tell;
        o.progress_user = user;
        return coterie_engine_create(of.get(), &o, &engine, error);
    });
    handle_ = Handle<coterie_engine>(
        engine, [listener = listener_](coterie_engine* e) { coterie_engine_destroy(e); });
    engines().insert(this);
}

Engine::~Engine() {
    close();
}
Handle<coterie_engine> Engine::handle() const {
    return open_or_raise(handle_, "the engine is closed");
}
void Engine::close() {
    engines().erase(this);
    drop(handle_);
}

Generation::Generation(coterie_generation* handle, std::shared_ptr<Listener> listener)
    : listener_(std::move(listener)), handle_(handle, coterie_generation_destroy) {
    generations().insert(this);
}
Generation::~Generation() {
    close();
}
Handle<coterie_generation> Generation::handle() const {
    return open_or_raise(handle_, "the generation is closed");
}
void Generation::cancel() {
    if (handle_) coterie_generation_cancel(handle_.get());
}
void Generation::close() {
    generations().erase(this);
    cancel();
    drop(handle_);
}

py::object Generation::next(int64_t timeout_ms) {
    using Clock = std::chrono::steady_clock;
    const Busy busy;
    const Handle<coterie_generation> of = handle();
    const std::shared_ptr<std::mutex> reading = reading_;
    const Clock::time_point end = Clock::now() + std::chrono::milliseconds(std::max<int64_t>(timeout_ms, 0));
    for (;;) {
        check_closing();
        int64_t wait = 50;
        if (timeout_ms >= 0) {
            const auto left =
                std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
            wait = std::clamp<int64_t>(left, 0, wait);
        }
        coterie_event event = COTERIE_EVENT_INIT;
        coterie_error error = COTERIE_ERROR_INIT;
        coterie_status status;
        py::object result = py::none();
        {
            std::unique_lock<std::mutex> lock(*reading, std::defer_lock);
            {
                const Inside inside;
                lock.lock();
                status = coterie_generation_next(of.get(), &event, wait, &error);
            }
            // The texts live until another reader calls.
            if (status == COTERIE_OK && event.kind != COTERIE_EVENT_NONE) result = py::cast(event_of(event));
        }
        if (status != COTERIE_OK) raise(status, error.message);
        if (!result.is_none()) return result;
        try {
            check_signals();
        } catch (...) {
            cancel();
            throw;
        }
        if (timeout_ms >= 0 && Clock::now() >= end) return result;
    }
}

void shutdown() {
    closing = true;
    for (Generation* generation : generations()) generation->cancel();
    wait_for_others();
    shutting_down = true;
    while (!generations().empty()) (*generations().begin())->close();
    while (!engines().empty()) (*engines().begin())->close();
    shutting_down = false;
}

}  // namespace binding
