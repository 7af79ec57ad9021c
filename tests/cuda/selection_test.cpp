// Sums by index and nearest points on the GPU, through the public interface: the bits of the CPU, and no byte beyond
// the results written.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "cpu/points.hpp"
#include "cuda/device_memory.hpp"
#include "rowmax/scatter.hpp"
#include "support/array.hpp"
#include "support/throws.hpp"

namespace rowmax::test {
namespace {

Device gpu() {
    Device device;
    device.kind = Device::Kind::cuda;
    return device;
}

class Selection : public ::testing::Test {
  protected:
    ~Selection() override { memory_.give_back(); }

    /// A copy of what a view shows, there.
    TensorView on_device(TensorView view) {
        if (view.data == nullptr) return view;
        const std::size_t bytes = static_cast<std::size_t>(view.numel()) * size_of(view.dtype);
        std::byte* to = memory_.take(bytes);
        DeviceMemory::to_device(to, view.data, bytes);
        view.data = to;
        return view;
    }

    /// Bytes of a result there.
    std::vector<std::byte> fetched(const TensorView& view) {
        cudaDeviceSynchronize();
        std::vector<std::byte> bytes(static_cast<std::size_t>(view.numel()) * size_of(view.dtype));
        DeviceMemory::to_host(bytes.data(), static_cast<const std::byte*>(view.data), bytes.size());
        EXPECT_TRUE(memory_.guards_hold());
        return bytes;
    }

    void expect_same(const TensorView& there, const TensorView& here) {
        const std::vector<std::byte> got = fetched(there);
        EXPECT_EQ(std::memcmp(got.data(), here.data, got.size()), 0);
    }

    PointRequest on_device(PointRequest request) {
        for (PointSet* set : {&request.p, &request.r}) {
            for (TensorView* view : {&set->points, &set->mask, &set->cu_seqlens}) *view = on_device(*view);
        }
        request.options.device = gpu();
        return request;
    }

    DeviceMemory memory_;
};

std::vector<double> numbers(std::int64_t count, unsigned seed, int least, int largest) {
    Numbers random(seed);
    std::vector<double> values;
    for (std::int64_t i = 0; i < count; ++i) values.push_back(random.integer(least, largest));
    return values;
}

TEST_F(Selection, SumsAndTheirGrid) {
    for (const std::int64_t channels : {1, 5, 16}) {
        for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
            constexpr std::int64_t sources = 3000;
            constexpr std::int64_t n = 7;
            const Array index(DType::i64, {2, sources}, numbers(2 * sources, 1, -1, n - 1));
            const Array values(dtype, {2, sources, channels}, numbers(2 * sources * channels, 2, -9, 9));
            const Array want(dtype, {2, n, channels}, {-7});
            scatter_sum(index.view(), values.view(), n, want.view());
            const TensorView there = on_device(index.view());
            const TensorView got = on_device(want.view());
            scatter_sum(there, on_device(values.view()), n, got, {}, true, 0, gpu());
            expect_same(got, want.view());
            const Array row_ptr(DType::i64, {2, n + 1}, {-7});
            const Array source(DType::i64, {2, sources}, {-7});
            inverse_grid(index.view(), n, row_ptr.view(), source.view());
            const TensorView starts = on_device(row_ptr.view());
            const TensorView listed = on_device(source.view());
            inverse_grid(there, n, starts, listed, false, gpu());
            expect_same(starts, row_ptr.view());
            expect_same(listed, source.view());
            memory_.give_back();
        }
    }
}

TEST_F(Selection, NearestPointsBySearch) {
    for (const std::int64_t dim : {2, 3, 20}) {
        Cloud cloud{Array(DType::f32, {2, 300, dim}, numbers(600 * dim, 3, -5, 5)),
                    Array(DType::f32, {2, 500, dim}, numbers(1000 * dim, 4, -5, 5)),
                    {},
                    {},
                    {},
                    {}};
        cloud.r_mask.emplace(DType::boolean, std::vector<std::int64_t>{2, 500}, numbers(1000, 5, 0, 1));
        for (const std::int64_t k : {1, 6}) {
            const Array distance(DType::f32, {2, 300, k}, {-7});
            const Array index(DType::i64, {2, 300, k}, {-7});
            nearest(cloud.request(), k, distance.view(), index.view());
            for (const PointSearch search : {PointSearch::brute, PointSearch::tree}) {
                if (search == PointSearch::tree && dim > 4) continue;
                PointRequest request = on_device(cloud.request());
                request.options.search = search;
                const TensorView distance_there = on_device(distance.view());
                const TensorView index_there = on_device(index.view());
                nearest(request, k, distance_there, index_there);
                expect_same(distance_there, distance.view());
                expect_same(index_there, index.view());
                memory_.give_back();
            }
        }
    }
}

TEST_F(Selection, RefusesWhatAnIndexMayNotHold) {
    const Array index(DType::i32, {3}, {0, 5, 1});
    const Array values(DType::f32, {3}, {1});
    const Array out(DType::f32, {2}, {0});
    const TensorView there = on_device(index.view());
    const TensorView of_values = on_device(values.view());
    const TensorView to = on_device(out.view());
    EXPECT_ERROR(scatter_sum(there, of_values, 2, to, {}, true, 0, gpu()), invalid_value, "index holds 5 at source 1");
    scatter_sum(there, of_values, 2, to, {}, false, 0, gpu());
    const std::vector<std::byte> sums = fetched(to);
    const float wanted[] = {1, 1};
    EXPECT_EQ(std::memcmp(sums.data(), wanted, sizeof(wanted)), 0);
}

}  // namespace
}  // namespace rowmax::test
