// Runs one function on several threads that start at the same moment.
#pragma once

#include <barrier>
#include <numeric>
#include <thread>
#include <vector>

namespace rowmax::bench {

/// The sum of function(0) .. function(threads - 1). The calling thread is one of them, so one thread costs no start.
template <class Function>
double together(int threads, Function function) {
    std::barrier<> start(threads);
    std::vector<double> results(static_cast<std::size_t>(threads));
    std::vector<std::thread> others;
    const auto body = [&](int i) {
        start.arrive_and_wait();
        results[static_cast<std::size_t>(i)] = function(i);
    };
    for (int i = 1; i < threads; ++i) others.emplace_back(body, i);
    body(0);
    for (std::thread& other : others) other.join();
    return std::accumulate(results.begin(), results.end(), 0.0);
}

}  // namespace rowmax::bench
