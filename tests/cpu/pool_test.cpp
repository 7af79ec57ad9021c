// The thread pool: every task once, several callers, tasks that call it, exceptions, fork.
#include "core/parallel.hpp"
#include "support/throws.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <thread>
#include <vector>

namespace rowmax::core {
namespace {

bool every_task_once(int threads, std::int64_t count) {
    std::vector<std::atomic<int>> runs(static_cast<std::size_t>(count));
    parallel_for(threads, count, [&](std::int64_t i) { ++runs[static_cast<std::size_t>(i)]; });
    return std::all_of(runs.begin(), runs.end(), [](const auto& n) { return n == 1; });
}

TEST(Pool, RunsEveryTaskOnce) {
    for (const int threads : {1, 2, 3, 8}) {
        for (const std::int64_t count : {0, 1, 2, 7, 1000}) EXPECT_TRUE(every_task_once(threads, count));
    }
}

TEST(Pool, ServesSeveralCallersAtOnce) {
    std::atomic<int> good{0};
    std::vector<std::thread> callers;
    for (int c = 0; c < 4; ++c) {
        callers.emplace_back([&] {
            for (int round = 0; round < 200; ++round) good += every_task_once(3, 50) ? 1 : 0;
        });
    }
    for (std::thread& caller : callers) caller.join();
    EXPECT_EQ(good, 800);
}

std::vector<int> cores_allowed() {
    cpu_set_t set;
    CPU_ZERO(&set);
    std::vector<int> cores;
    if (sched_getaffinity(0, sizeof(set), &set) != 0) return cores;
    for (int core = 0; core < CPU_SETSIZE; ++core) {
        if (CPU_ISSET(core, &set)) cores.push_back(core);
    }
    return cores;
}

void stay_on(const std::vector<int>& cores) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const int core : cores) CPU_SET(core, &set);
    ASSERT_EQ(sched_setaffinity(0, sizeof(set), &set), 0);
}

// A caller on `core`, on a thread of its own, so that no other test's is kept there.
bool helpers_keep_away(const std::vector<int>& cores, int core) {
    std::atomic<bool> away{true};
    std::atomic<int> helped{0};
    std::thread([&] {
        stay_on({core});
        const auto caller = std::this_thread::get_id();
        for (int round = 0; round < 100 && (round < 20 || helped < 5); ++round) {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));  // all cores sleep
            parallel_for(static_cast<int>(cores.size()), 200, [&](std::int64_t) {
                const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(20);
                while (std::chrono::steady_clock::now() < end) {
                }
                if (std::this_thread::get_id() == caller) return;
                ++helped;
                if (sched_getcpu() == core) away = false;
            });
        }
    }).join();
    return away && helped > 0;
}

TEST(Pool, HelpersLeaveTheirCallersCoreToIt) {
    const std::vector<int> cores = cores_allowed();
    if (cores.size() < 2) GTEST_SKIP() << "one core";
    EXPECT_TRUE(every_task_once(static_cast<int>(cores.size()), 100));
    for (const int core : {cores.front(), cores.back(), cores.front()}) EXPECT_TRUE(helpers_keep_away(cores, core));
}

TEST(Pool, TasksMayUseIt) {
    std::atomic<int> good{0};
    parallel_for(4, 20, [&](std::int64_t) { good += every_task_once(4, 30) ? 1 : 0; });
    EXPECT_EQ(good, 20);
}

TEST(Pool, RethrowsTheExceptionOfATask) {
    for (const int threads : {1, 4}) {
        for (int round = 0; round < 50; ++round) {
            EXPECT_THROW(parallel_for(threads, 100,
                                      [](std::int64_t i) {
                                          if (i == 40) throw std::runtime_error("task");
                                      }),
                         std::runtime_error);
        }
        EXPECT_TRUE(every_task_once(threads, 100));
    }
}

TEST(Pool, WorksInAForkedChild) {
    EXPECT_TRUE(every_task_once(3, 100));
    const pid_t child = fork();
    if (child == 0) _exit(every_task_once(3, 100) ? 0 : 1);
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
}

// In a child, since limits cannot be lifted again; not as root, for whom this one does not hold.
int exit_code_without_threads() {
    const rlimit none{0, 0};
    if (getuid() == 0 && setuid(65534) != 0) return 2;
    if (setrlimit(RLIMIT_NPROC, &none) != 0) return 3;
    return every_task_once(3, 100) && every_task_once(5, 100) ? 0 : 1;
}

TEST(Pool, WorksWhereNoThreadCanBeStarted) {
    const pid_t child = fork();
    if (child == 0) _exit(exit_code_without_threads());
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(Pool, CountsThreads) {
    EXPECT_EQ(thread_count(3), 3);
    setenv("ROWMAX_THREADS", "5", 1);
    EXPECT_EQ(thread_count(0), 5);
    EXPECT_EQ(thread_count(2), 2);
    for (const char* everything : {"", "0"}) {
        setenv("ROWMAX_THREADS", everything, 1);
        EXPECT_GE(thread_count(0), 1);
    }
    for (const char* wrong : {"garbage", "4 threads", "-1", "1.5", "99999999999999999999"}) {
        setenv("ROWMAX_THREADS", wrong, 1);
        EXPECT_ERROR(thread_count(0), invalid_value, "ROWMAX_THREADS", wrong);
        EXPECT_EQ(thread_count(2), 2) << "not asked for";
    }
    unsetenv("ROWMAX_THREADS");
    EXPECT_GE(thread_count(0), 1);
}

}  // namespace
}  // namespace rowmax::core
