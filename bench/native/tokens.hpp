// Random tokens of any type and the requests over them, for the C++ benchmarks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "rowmax/maxsim.hpp"

namespace rowmax::bench {

/// One query against equally long documents, with everything that a request points into.
class Tokens {
  public:
    struct Shape {
        std::int64_t query_length;
        std::int64_t documents;
        std::int64_t document_length;
        std::int64_t dim;
    };

    Tokens(Shape shape, DType dtype, int threads);

    [[nodiscard]] const ScoreRequest& request() const { return request_; }
    [[nodiscard]] ScoreOutputs outputs();
    [[nodiscard]] double flop() const;
    [[nodiscard]] std::size_t document_bytes() const { return documents_.size(); }

  private:
    Shape shape_;
    std::vector<std::byte> query_, documents_, scores_;
    ScoreRequest request_;
};

}  // namespace rowmax::bench
