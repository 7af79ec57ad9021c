// Sign bits of every layout, for the tests of all rows.
#pragma once

#include <memory>
#include <vector>

#include "cpu/sample.hpp"
#include "rowmax/compressed.hpp"

namespace rowmax::test {

/// A request of some layout, with the sign bits of its documents, and of its queries too where asked for.
struct Signs {
    Signs(const Shape& shape, bool queries_too, bool big = false) : sample(shape, normal()), request(sample.request) {
        // Hidden tokens hold NaN, whose bits are 0: they would be noticed.
        d = bits_of(request.d.tokens, big);
        if (queries_too) q = bits_of(request.q.tokens, big);
        request.d.tokens = d->view();
        if (!queries_too) {
            request.d.residual = &tables;
            tables.bit_order = big ? BitOrder::colbert : BitOrder::little;
            if (big) tables.bucket_weights = {};  // which means the same
            return;
        }
        request.q.tokens = q->view();
        request.q.sign_bits = request.d.sign_bits = shape.dim;
    }

    static std::unique_ptr<Array> bits_of(const TensorView& tokens, bool big) {
        std::vector<std::int64_t> shape(tokens.shape.begin(), tokens.shape.begin() + tokens.ndim);
        shape.back() = (shape.back() + 7) / 8;
        auto bits = std::make_unique<Array>(DType::u8, shape);
        sign_bits(tokens, big, bits->view());
        return bits;
    }

    Sample sample;
    std::unique_ptr<Array> q;
    std::unique_ptr<Array> d;
    Array weights{DType::f32, {2}, {-1, 1}};
    ResidualTables tables{{}, weights.view(), 1, BitOrder::little, false};
    ScoreRequest request;
};

}  // namespace rowmax::test
