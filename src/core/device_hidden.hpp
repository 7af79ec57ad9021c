// Gradients through the projection of hidden states on a device: what a backend offers. What lies between these steps
// are matrix products, which the caller makes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/params.hpp"

namespace rowmax::core {

/// Which tokens of a block of documents won, each named once, in ascending order.
struct HiddenWinners {
    const std::int32_t* index = nullptr;  ///< of the block's first document; -1: none
    std::int64_t queries = 0;             ///< that share the documents; 1 where documents are a query's own
    std::int64_t query_stride = 0;        ///< of the index, in elements
    std::int64_t documents = 0;           ///< of the block
    std::int64_t query_length = 0;
    std::int64_t first_row = 0;    ///< of dense documents: the row of the hidden states where the block begins
    std::int64_t length = 0;       ///< tokens of a document, all of them where documents are packed
    const void* starts = nullptr;  ///< of packed documents, the block's first and one more; null: dense
    bool wide_starts = false;
    std::int64_t places = 0;  ///< of each document: as many as it can have winners

    std::int32_t* place = nullptr;  ///< [queries][documents][query_length]: which of its document's winners, -1: none
    std::int64_t* rows = nullptr;   ///< [documents][places]: rows of the hidden states; -1 in places left over

    [[nodiscard]] constexpr std::int64_t sources() const { return queries * query_length; }
};

/// Some rows of an array, and a copy of them one after the other.
struct ChosenRows {
    const std::int64_t* rows = nullptr;  ///< -1: none, zeros in the copy
    std::int64_t count = 0;
    std::int64_t bytes = 0;  ///< of a row
    std::byte* all = nullptr;
    std::int64_t length = 1;  ///< row r is token r % length of item r / length; strides in bytes
    std::int64_t item_stride = 0;
    std::int64_t token_stride = 0;
    std::byte* copy = nullptr;
};

/// Rows W h, as the matrix product leaves them, on their way to tokens.
struct ProjectedSums {
    const void* sums = nullptr;  ///< [count][dim], float32; of float32 states float64
    const void* bias = nullptr;  ///< [dim], of the states' type; may be null
    DType dtype = DType::f32;    ///< of the states: float16, bfloat16 or float32
    std::int64_t count = 0;
    std::int64_t dim = 0;
    bool normalize = false;
    bool rounded = false;      ///< tokens of the states' type rather than float32
    void* tokens = nullptr;    ///< [count][dim]; may be where float32 sums are
    float* inverse = nullptr;  ///< [count], one over the norms; may be null
};

/// Gradients of normalised tokens on their way to those of W h.
struct ProjectedGradients {
    float* gradients = nullptr;      ///< [count][dim], replaced
    const float* tokens = nullptr;   ///< [count][dim]
    const float* inverse = nullptr;  ///< [count]; null: not normalised, only rounded
    DType dtype = DType::f32;
    void* rounded = nullptr;  ///< [count][dim] of that type; null: not wanted
    std::int64_t count = 0;
    std::int64_t dim = 0;
};

/// All of them queue work on the place's stream.
struct DeviceHidden {
    void (*winners)(const Place&, const HiddenWinners&);
    void (*gather)(const Place&, const ChosenRows&);
    void (*scatter)(const Place&, const ChosenRows&);
    void (*tokens)(const Place&, const ProjectedSums&);
    void (*through_norm)(const Place&, const ProjectedGradients&);
};

/// Null in a build without CUDA (src/no_cuda).
const DeviceHidden* device_hidden();

}  // namespace rowmax::core
