#include "native/tokens.hpp"

#include <cstring>
#include <random>

#include "core/half.hpp"

namespace rowmax::bench {
namespace {

template <class T>
void put(std::byte*& at, T value) {
    std::memcpy(at, &value, sizeof(T));
    at += sizeof(T);
}

std::vector<std::byte> random_tokens(std::int64_t count, DType dtype, std::uint32_t seed) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(count) * size_of(dtype));
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
    std::byte* at = bytes.data();
    for (std::int64_t i = 0; i < count; ++i) {
        const float value = uniform(random);
        switch (dtype) {
            case DType::f16: put(at, core::float_to_half(value)); break;
            case DType::bf16: put(at, core::float_to_bfloat(value)); break;
            case DType::f64: put(at, static_cast<double>(value)); break;
            default: put(at, value); break;
        }
    }
    return bytes;
}

}  // namespace

Tokens::Tokens(Shape shape, DType dtype, int threads)
    : shape_(shape),
      query_(random_tokens(shape.query_length * shape.dim, dtype, 1)),
      documents_(random_tokens(shape.documents * shape.document_length * shape.dim, dtype, 2)),
      scores_(sizeof(double) * static_cast<std::size_t>(shape.documents)) {
    request_.q.tokens = TensorView(query_.data(), dtype, {1, shape.query_length, shape.dim});
    request_.d.tokens = TensorView(documents_.data(), dtype, {shape.documents, shape.document_length, shape.dim});
    request_.options.threads = threads;
}

ScoreOutputs Tokens::outputs() {
    const DType dtype = request_.q.tokens.dtype == DType::f64 ? DType::f64 : DType::f32;
    return {.scores = TensorView(scores_.data(), dtype, {1, shape_.documents}), .index = {}, .similarity = {}};
}

double Tokens::flop() const {
    return 2.0 * static_cast<double>(shape_.query_length * shape_.documents * shape_.document_length * shape_.dim);
}

}  // namespace rowmax::bench
