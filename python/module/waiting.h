// How the module waits: never with the interpreter's lock held, always awake to Ctrl-C and to the
// interpreter's end. Invariant: once shutdown() has returned, no thread is inside the library and no callback
// will ask for the lock any more, so the interpreter can go away under daemon threads without a crash.
#pragma once
#include <coterie/coterie.h>
#include <pybind11/pybind11.h>

#include <atomic>
#include <functional>
#include <utility>

namespace binding {
namespace py = pybind11;

// The interpreter is ending: waits give up, callbacks are silent.
extern std::atomic<bool> closing;

// Raises coterie.Error's subclass for the status. Needs the lock.
[[noreturn]] void raise(coterie_status status, const char* message);

// Counts a thread as busy with a call into the library; made and ended with the lock held.
class Busy {
  public:
    Busy();
    ~Busy();
    Busy(const Busy&) = delete;
    Busy& operator=(const Busy&) = delete;
};

// The thread has given the lock away. Only while busy: a thread that comes back for the lock when the
// interpreter is gone is ended where it stands.
class Inside {
  public:
    Inside() : state_(PyEval_SaveThread()) {}
    ~Inside() { PyEval_RestoreThread(state_); }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

  private:
    PyThreadState* state_;
};

// Waits until no thread is busy any more, at most some seconds. Needs the lock, which it gives away
// meanwhile.
void wait_for_others();

// Raises Cancelled when the interpreter ends; and KeyboardInterrupt and the like if one is due.
void check_closing();
void check_signals();

// Calls function(&error) without the lock and raises what it reports. For what ends soon by itself.
template <typename Function>
void call(Function&& function) {
    check_closing();
    const Busy busy;
    coterie_error error = COTERIE_ERROR_INIT;
    coterie_status status;
    {
        const Inside inside;
        status = function(&error);
    }
    if (status != COTERIE_OK) raise(status, error.message);
}

// Runs function(progress, user, &error), which may take long, on a thread of its own; `progress` (a Python
// callable of (what, done, total), or None) is called from there and cancels by raising or by returning
// False. Ctrl-C cancels too.
using LongCall =
    std::function<coterie_status(coterie_progress_fn progress, void* user, coterie_error* error)>;
void call_long(const py::object& progress, const LongCall& function);

}  // namespace binding
