// Threads that wait for work: one pool for the process, started at the first call that needs more than one thread.
// The CPU backend has it (cpu/pool.cpp), for every layer.
#pragma once

#include <cstdint>
#include <type_traits>

namespace rowmax::core {

/// Threads for a call that asks for `wanted`: when 0, ROWMAX_THREADS, or else the cores this process may use.
/// Throws Error(invalid_value) when that variable holds something else than a number.
int thread_count(int wanted);

namespace detail {
using Task = void (*)(void* context, std::int64_t task);
void run_tasks(int threads, std::int64_t count, Task task, void* context);
}  // namespace detail

/// Calls f(0) .. f(count - 1), each once, on up to `threads` threads, the caller's among them; returns when all are
/// done. Threads take tasks in ascending order. The first exception thrown by a task is rethrown here, and tasks not
/// yet begun are dropped. Safe from several threads at once, from inside a task, and after fork.
template <class F>
void parallel_for(int threads, std::int64_t count, F&& f) {
    using Function = std::remove_reference_t<F>;
    detail::run_tasks(
        threads, count, [](void* context, std::int64_t task) { (*static_cast<Function*>(context))(task); },
        const_cast<void*>(static_cast<const void*>(&f)));
}

}  // namespace rowmax::core
