// What a search found, whoever searched.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/topk.hpp"
#include "rowmax/tensor.hpp"

namespace rowmax::cli {

struct Ranking {
    std::int64_t query_count = 0;
    std::int64_t k = 0;  ///< cut to the number of documents: that of a full list
    DType score_dtype = DType::f32;
    std::function<std::string(std::int64_t)> query_id;
    std::function<std::string(std::int64_t)> document_id;
    std::function<std::vector<core::Hit>(std::int64_t)> ranked;  ///< of a query, best first
};

}  // namespace rowmax::cli
