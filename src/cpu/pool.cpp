#include "core/parallel.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "core/float_mode.hpp"
#include "rowmax/error.hpp"

namespace rowmax::cpu {

namespace {

constexpr int most_threads = 1024;

/// One call of run_tasks: lives on the caller's stack until every helper has left it.
struct Job {
    Job(core::detail::Task function, void* argument, std::int64_t tasks, int helpers)
        : task(function), context(argument), count(tasks), places(helpers) {}

    core::detail::Task task;
    void* context;
    std::int64_t count;
    int places;      ///< helpers that may still join; guarded by the pool's mutex
    int inside = 0;  ///< helpers that joined and have not left; guarded by the pool's mutex
    std::atomic<std::int64_t> next{0};
    std::exception_ptr error;  ///< guarded by error_mutex
    std::mutex error_mutex;

    void work() {
        for (;;) {
            const std::int64_t i = next.fetch_add(1, std::memory_order_relaxed);
            if (i >= count) return;
            try {
                task(context, i);
            } catch (...) {
                const std::lock_guard lock(error_mutex);
                if (error == nullptr) error = std::current_exception();
                next.store(count, std::memory_order_relaxed);
            }
        }
    }
};

/// A thread of the pool, as callers see it: they send it away from their own core. A scheduler may think better of that
/// core than of an idle one (a virtual machine's idle cores are taken for ones that the host has put aside), and until
/// it moves one of the two, some milliseconds later, they share it: a call on two threads then took as long as on one.
class Helper {
  public:
    Helper() : thread_(gettid()) { CPU_ZERO(&given_); }

    bool asleep = false;  ///< guarded by the pool's mutex; one at work stays where it is

    void keep_away_from(int core) {
        if (!asleep || core == away_from_ || core < 0) return;
        cpu_set_t now;
        CPU_ZERO(&now);
        if (sched_getaffinity(thread_, sizeof(now), &now) != 0) return;
        if (CPU_EQUAL(&now, &given_) == 0) cores_ = now;  // somebody else's choice
        cpu_set_t others = cores_;
        CPU_CLR(core, &others);
        if (CPU_COUNT(&others) == 0 || sched_setaffinity(thread_, sizeof(others), &others) != 0) return;
        given_ = others;
        away_from_ = core;
    }

  private:
    pid_t thread_;
    cpu_set_t cores_;  ///< where it may run
    cpu_set_t given_;  ///< the same without the caller's core
    int away_from_ = -1;
};

class Pool {
  public:
    void run(Job& job, int helpers) {
        {
            const std::lock_guard lock(mutex_);
            grow(helpers);
            const int core = sched_getcpu();
            for (Helper* helper : helpers_) helper->keep_away_from(core);
            jobs_.push_back(&job);
        }
        if (helpers == 1) {
            wake_.notify_one();
        } else {
            wake_.notify_all();
        }
        job.work();
        std::unique_lock lock(mutex_);
        std::erase(jobs_, &job);
        left_.wait(lock, [&] { return job.inside == 0; });
    }

  private:
    // Threads are detached: they hold nothing that must be released, and a process may exit while they sleep. Where the
    // system allows no more of them, those that are there do the work; the caller alone is enough.
    void grow(int helpers) {
        try {
            for (; threads_ < helpers; ++threads_) std::thread([this] { serve(); }).detach();
        } catch (const std::system_error&) {
        }
    }

    Job* joinable() {
        for (Job* job : jobs_) {
            if (job->places > 0 && job->next.load(std::memory_order_relaxed) < job->count) return job;
        }
        return nullptr;
    }

    void serve() {
        core::set_standard_float_mode();  // a thread begins with the mode of the one that started it
        Helper self;
        std::unique_lock lock(mutex_);
        helpers_.push_back(&self);
        for (;;) {
            Job* job = nullptr;
            self.asleep = true;
            wake_.wait(lock, [&] { return (job = joinable()) != nullptr; });
            self.asleep = false;
            --job->places;
            ++job->inside;
            lock.unlock();
            job->work();
            lock.lock();
            if (--job->inside == 0) left_.notify_all();
        }
    }

    std::mutex mutex_;
    std::condition_variable wake_;
    std::condition_variable left_;
    std::deque<Job*> jobs_;
    std::vector<Helper*> helpers_;  ///< on their stacks: they never end
    int threads_ = 0;
};

struct OwnedPool {
    pid_t owner = getpid();
    Pool pool;
};

// A child of fork has the pool's memory but none of its threads, and perhaps a locked mutex: it gets a pool of its own.
// Pools are never destroyed, since their threads may outlive static destructors.
Pool& pool() {
    static std::atomic<OwnedPool*> current{nullptr};
    OwnedPool* seen = current.load(std::memory_order_acquire);
    while (seen == nullptr || seen->owner != getpid()) {
        auto fresh = std::make_unique<OwnedPool>();
        if (current.compare_exchange_strong(seen, fresh.get(), std::memory_order_acq_rel)) seen = fresh.release();
    }
    return seen->pool;
}

int available_cores() {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(CPU_COUNT(&set), 1);
    return std::max(static_cast<int>(std::thread::hardware_concurrency()), 1);
}

/// ROWMAX_THREADS; 0 when it is not set, or empty.
int threads_of_environment() {
    const char* variable = std::getenv("ROWMAX_THREADS");
    if (variable == nullptr || *variable == '\0') return 0;
    const char* end = variable + std::strlen(variable);
    int threads = 0;
    const auto [stop, error] = std::from_chars(variable, end, threads);
    if (error == std::errc() && stop == end && threads >= 0) return threads;
    throw Error(ErrorCode::invalid_value,
                fmt::format("ROWMAX_THREADS is '{}', which is no number of threads (0: all cores)", variable));
}

}  // namespace
}  // namespace rowmax::cpu

namespace rowmax::core {

int thread_count(int wanted) {
    if (wanted > 0) return std::min(wanted, cpu::most_threads);
    const int asked = cpu::threads_of_environment();
    if (asked > 0) return std::min(asked, cpu::most_threads);
    static const int cores = std::min(cpu::available_cores(), cpu::most_threads);
    return cores;
}

void detail::run_tasks(int threads, std::int64_t count, Task task, void* context) {
    const auto helpers = static_cast<int>(std::min<std::int64_t>(threads, count)) - 1;
    if (helpers < 1) {
        for (std::int64_t i = 0; i < count; ++i) task(context, i);
        return;
    }
    cpu::Job job(task, context, count, helpers);
    cpu::pool().run(job, helpers);
    if (job.error != nullptr) std::rethrow_exception(job.error);
}

}  // namespace rowmax::core
