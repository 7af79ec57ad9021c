// The thread pool: every task once, several callers, tasks that call it, exceptions, fork.
#include "core/parallel.hpp"
#include "support/throws.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
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
