// Items of every layout, packed: their kept tokens in order, whatever the strides.
#include "stream/packing.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "core/sides.hpp"
#include "cpu/residual_sample.hpp"
#include "cpu/sample.hpp"

namespace rowmax::stream {
namespace {

using test::Layout;
using test::Sample;

/// The rows that a packing should hold, token by token.
std::vector<std::byte> by_the_book(const TokenSet& set, Hidden hidden, std::vector<std::int64_t>& starts) {
    core::Copies copies;
    const core::Segments side = core::make_segments(copies, set, core::document_names, false);
    const std::size_t row = static_cast<std::size_t>(set.tokens.shape[set.tokens.ndim - 1]) * size_of(set.tokens.dtype);
    std::vector<std::byte> bytes;
    for (std::int64_t i = 0; i < side.count; ++i) {
        const core::Segment item = side.at(i);
        for (std::int64_t t = 0; t < item.length; ++t) {
            if (hidden == Hidden::left_out && !side.keeps(item, t)) continue;
            const std::byte* token = item.data + t * side.row_stride;
            bytes.insert(bytes.end(), token, token + row);
        }
        starts.push_back(static_cast<std::int64_t>(bytes.size() / row));
    }
    return bytes;
}

void expect_packs(const TokenSet& set, Hidden hidden) {
    std::vector<std::int64_t> starts{0};
    const std::vector<std::byte> want = by_the_book(set, hidden, starts);
    const Packing packing(set, hidden);
    EXPECT_EQ(packing.starts(), starts);
    const std::int64_t rows = packing.rows();
    ASSERT_EQ(static_cast<std::size_t>(rows * packing.row_bytes().token), want.size());
    std::vector<std::byte> got(want.size());
    packing.write(0, rows, got.data(), 3);
    EXPECT_TRUE(got == want);
    for (const std::int64_t cut : {rows / 3, rows / 2}) {  // in two pieces, from anywhere
        std::fill(got.begin(), got.end(), std::byte{0});
        packing.write(0, cut, got.data(), 1);
        packing.write(cut, rows, got.data() + cut * packing.row_bytes().token, 2);
        EXPECT_TRUE(got == want);
    }
}

TEST(Packing, TakesEveryLayout) {
    for (const Layout layout : {Layout::cross, Layout::single, Layout::packed, Layout::ranges}) {
        for (const bool masked : {false, true}) {
            if (masked && (layout == Layout::packed || layout == Layout::ranges)) continue;
            const Sample sample({layout, DType::f16, 3, 400, 7, 30, 50, masked, false, 5}, test::small_integers(50));
            for (const Hidden hidden : {Hidden::left_out, Hidden::kept}) {
                SCOPED_TRACE(text_of(sample.shape()));
                expect_packs(sample.request.d, hidden);
            }
        }
    }
}

/// Of each row that is kept, what belongs to it.
std::vector<std::byte> beside_by_the_book(const TokenSet& set, Hidden hidden) {
    core::Copies copies;
    const core::Segments side = core::make_segments(copies, set, core::document_names, false);
    const TensorView& beside = set.scale.given() ? set.scale : set.codes;
    const core::TokenSteps steps = core::token_steps(beside, set.tokens.ndim - 2);
    const std::size_t each = size_of(beside.dtype);
    std::vector<std::byte> bytes;
    for (std::int64_t i = 0; i < side.count; ++i) {
        for (std::int64_t t = 0; t < side.at(i).length; ++t) {
            if (hidden == Hidden::left_out && !side.keeps(side.at(i), t)) continue;
            const std::int64_t at = steps.first(side, i) + t * steps.token;
            const std::byte* from = static_cast<const std::byte*>(beside.data) + at * static_cast<std::int64_t>(each);
            bytes.insert(bytes.end(), from, from + each);
        }
    }
    return bytes;
}

void expect_packs_beside(const TokenSet& set, Hidden hidden, std::size_t each) {
    expect_packs(set, hidden);
    const std::vector<std::byte> want = beside_by_the_book(set, hidden);
    const Packing packing(set, hidden);
    ASSERT_EQ(static_cast<std::size_t>(packing.row_bytes().beside), each);
    ASSERT_EQ(static_cast<std::size_t>(packing.rows()) * each, want.size());
    for (const std::int64_t cut : {std::int64_t{0}, packing.rows() / 3}) {
        std::vector<std::byte> got(want.size());
        packing.write_beside(0, cut, got.data());
        packing.write_beside(cut, packing.rows(), got.data() + cut * packing.row_bytes().beside);
        EXPECT_TRUE(got == want) << cut;
    }
}

TEST(Packing, TakesScalesAlong) {
    for (const Layout layout : {Layout::cross, Layout::single, Layout::packed, Layout::ranges}) {
        for (const bool masked : {false, true}) {
            if (masked && (layout == Layout::packed || layout == Layout::ranges)) continue;
            for (const bool one_an_item : {false, true}) {
                const Sample sample({layout, DType::i8, 3, 60, 7, 30, 50, masked, false, 5, one_an_item},
                                    test::small_integers(50));
                SCOPED_TRACE(text_of(sample.shape()));
                for (const Hidden hidden : {Hidden::left_out, Hidden::kept}) {
                    expect_packs_beside(sample.request.d, hidden, sizeof(float));
                    expect_packs_beside(sample.request.q, hidden, sizeof(float));
                }
            }
        }
    }
}

TEST(Packing, TakesCentroidsAlong) {
    for (const Layout layout : {Layout::cross, Layout::packed, Layout::ranges}) {
        for (const unsigned seed : {4U, 5U}) {  // int32, int64
            const test::Residuals r({layout, DType::f32, 3, 60, 7, 30, 48, false, false, seed}, 2, BitOrder::colbert,
                                    true, test::normal());
            expect_packs_beside(r.request.d, Hidden::left_out, seed % 2 == 0 ? 4 : 8);
        }
    }
}

TEST(Packing, TakesAnyStrides) {
    const Sample sample({Layout::cross, DType::f32, 1, 20, 2, 30, 16, false, false, 5}, test::small_integers(16));
    TokenSet every_second = sample.request.d;
    every_second.tokens.shape = {20, 15, 8};
    every_second.tokens.stride[1] *= 2;
    expect_packs(every_second, Hidden::left_out);
    TokenSet broadcast = sample.request.d;
    broadcast.tokens.stride[0] = 0;
    expect_packs(broadcast, Hidden::left_out);
    TokenSet across = sample.request.d;
    across.tokens.shape = {20, 16, 30};
    std::swap(across.tokens.stride[1], across.tokens.stride[2]);
    expect_packs(across, Hidden::left_out);
}

TEST(Packing, LooksOnceAtWhatIsContiguous) {
    const Sample sample({Layout::cross, DType::f16, 1, 2000, 2, 30, 64, false, false, 5}, test::small_integers(64));
    const Packing packing(sample.request.d, Hidden::left_out);
    EXPECT_EQ(packing.items(), 2000);
    EXPECT_EQ(packing.longest(), 30);
    EXPECT_TRUE(packing.mask().empty());
    std::vector<std::byte> got(static_cast<std::size_t>(packing.rows() * packing.row_bytes().token));
    packing.write(0, packing.rows(), got.data(), 4);
    EXPECT_EQ(std::memcmp(got.data(), sample.request.d.tokens.data, got.size()), 0);
}

TEST(Packing, NotesWhatIsHidden) {
    const Sample sample({Layout::cross, DType::f32, 4, 2, 19, 3, 8, true, false, 5}, test::small_integers(8));
    const Packing packing(sample.request.q, Hidden::kept);
    ASSERT_EQ(packing.mask().size(), 4U * 19);
    const auto* mask = static_cast<const std::uint8_t*>(sample.request.q.mask.data);
    for (std::size_t i = 0; i < packing.mask().size(); ++i) EXPECT_EQ(packing.mask()[i], mask[i]) << i;
}

}  // namespace
}  // namespace rowmax::stream
