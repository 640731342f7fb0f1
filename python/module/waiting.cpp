#include "waiting.h"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <future>
#include <mutex>

namespace binding {
namespace {

using namespace std::chrono_literals;

std::mutex busy_mutex;
std::condition_variable busy_changed;
int busy_threads = 0;

// Lives on the stack of the waiting thread for as long as the library may call.
struct Progress {
    py::object callback;
    std::atomic<bool> cancel{false};
    std::exception_ptr raised;

    static int tell(void* user, const char* what, uint64_t done, uint64_t total) noexcept {
        Progress& self = *static_cast<Progress*>(user);
        if (self.cancel || closing) return 1;
        if (self.callback.is_none()) return 0;
        const py::gil_scoped_acquire lock;
        try {
            const py::object result = self.callback(what, done, total);
            return result.is(py::bool_(false)) ? 1 : 0;
        } catch (...) {
            self.raised = std::current_exception();
            self.cancel = true;
            return 1;
        }
    }
};

}  // namespace

std::atomic<bool> closing{false};

void raise(coterie_status status, const char* message) {
    const py::object error =
        py::module_::import("coterie._errors").attr("error_of")(int(status), py::str(message));
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
    throw py::error_already_set();
}

Busy::Busy() {
    const std::lock_guard<std::mutex> lock(busy_mutex);
    ++busy_threads;
}
Busy::~Busy() {
    {
        const std::lock_guard<std::mutex> lock(busy_mutex);
        --busy_threads;
    }
    busy_changed.notify_all();
}

void wait_for_others() {
    PyThreadState* state = PyEval_SaveThread();
    {
        std::unique_lock<std::mutex> lock(busy_mutex);
        busy_changed.wait_for(lock, 20s, [] { return busy_threads == 0; });
    }
    PyEval_RestoreThread(state);
}

void check_signals() {
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    check_closing();
}
void check_closing() {
    if (closing) raise(COTERIE_CANCELLED, "the interpreter is ending");
}

void call_long(const py::object& callback, const LongCall& function) {
    check_closing();
    const Busy busy;
    Progress progress;
    progress.callback = callback;
    coterie_error error = COTERIE_ERROR_INIT;
    std::future<coterie_status> done =
        std::async(std::launch::async, [&] { return function(&Progress::tell, &progress, &error); });
    std::exception_ptr interrupted;
    for (;;) {
        std::future_status state;
        {
            const Inside inside;
            state = done.wait_for(50ms);
        }
        if (state == std::future_status::ready) break;
        if (interrupted) continue;
        try {
            check_signals();
        } catch (...) {
            interrupted = std::current_exception();
            progress.cancel = true;
        }
    }
    const coterie_status status = done.get();
    if (interrupted) std::rethrow_exception(interrupted);
    if (progress.raised) std::rethrow_exception(progress.raised);
    if (status != COTERIE_OK) raise(status, error.message);
}

}  // namespace binding
