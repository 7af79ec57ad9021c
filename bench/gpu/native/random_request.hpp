// Requests for a GPU's kernels whose tokens are random, and what they take inside a graph.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <string>

#include "rowmax/maxsim.hpp"

namespace rowmax::bench {

struct Shape {
    std::string name;
    std::int64_t queries, documents, lq, ld;
    std::int64_t dim = 128;
    bool ragged = false;     ///< lengths of 8 to ld tokens, lognormal
    std::int64_t shift = 0;  ///< bytes from an aligned address to the first document token
};

/// float16 tokens on the device, of about unit length. Their memory is never freed: programs end with their last shape.
ScoreRequest random_request(const Shape& shape, cudaStream_t stream);

/// Memory of the device, which is never freed either.
void* device_memory(std::int64_t bytes);

struct Times {
    double median_ms, p10_ms, p90_ms;
};

/// Of a call that queues work on the stream, captured `calls` times into a graph that is replayed.
Times replayed(cudaStream_t stream, int calls, const std::function<void()>& call);

}  // namespace rowmax::bench
