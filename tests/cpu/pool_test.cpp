// The thread pool: every task once, errors back to the caller, callers side by side, nested, and after fork.
#include "cpu/pool.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

namespace rowmax::cpu {
namespace {

int sum_of_tasks(int threads, int count) {
    std::atomic<int> sum{0};
    parallel_for(threads, count, [&](std::int64_t i) { sum += static_cast<int>(i) + 1; });
    return sum;
}

TEST(Pool, EveryTaskOnce) {
    for (const int threads : {1, 2, 5}) {
        for (const int count : {0, 1, 2, 100}) EXPECT_EQ(sum_of_tasks(threads, count), count * (count + 1) / 2);
    }
}

TEST(Pool, ErrorsComeBackAndThePoolLivesOn) {
    const auto fail = [](std::int64_t i) {
        if (i == 3) throw std::runtime_error("task 3");
    };
    EXPECT_THROW(parallel_for(4, 50, fail), std::runtime_error);
    EXPECT_EQ(sum_of_tasks(4, 50), 1275);
}

TEST(Pool, CallersSideBySide) {
    std::vector<std::thread> callers;
    std::atomic<int> right{0};
    for (int c = 0; c < 4; ++c) {
        callers.emplace_back([&] {
            for (int round = 0; round < 100; ++round) right += sum_of_tasks(3, 20) == 210 ? 1 : 0;
        });
    }
    for (std::thread& caller : callers) caller.join();
    EXPECT_EQ(right, 400);
}

TEST(Pool, Nested) {
    std::atomic<int> sum{0};
    parallel_for(3, 4, [&](std::int64_t) { sum += sum_of_tasks(3, 10); });
    EXPECT_EQ(sum, 4 * 55);
}

TEST(Pool, WorksInAForkedChild) {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "ThreadSanitizer does not follow a fork of a threaded process";
#endif
    EXPECT_EQ(sum_of_tasks(3, 100), 5050);
    const pid_t child = fork();
    if (child == 0) _exit(sum_of_tasks(3, 100) == 5050 ? 0 : 1);
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace rowmax::cpu
