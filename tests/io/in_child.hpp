// Work in a process of its own, which may end as it likes.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace rowmax::test {

/// A process that does `work`, and then ends.
inline pid_t child_doing(const std::function<void()>& work) {
    const pid_t child = fork();
    if (child == 0) {
        work();
        _exit(0);
    }
    return child;
}

inline int end_of(pid_t child) {
    int status = 0;
    waitpid(child, &status, 0);
    return status;
}

/// Runs `work` in a process of its own; returns how that ended.
inline int in_child(const std::function<void()>& work) {
    return end_of(child_doing(work));
}

}  // namespace rowmax::test
