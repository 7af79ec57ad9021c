// Problem validation: any request is either refused by an Error or safe to run. Each view of a request lies in a heap
// block that holds just its elements, so that AddressSanitizer sees every step outside.
#include <fuzzer/FuzzedDataProvider.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <vector>

#include "core/problem.hpp"
#include "core/reference.hpp"
#include "fuzz/promise.hpp"
#include "rowmax/maxsim.hpp"

namespace {

using namespace rowmax;
using fuzz::expect;

constexpr std::int64_t most_elements = 1 << 12;
constexpr std::int64_t most_bytes = 1 << 16;
constexpr std::int64_t most_work = 1 << 18;

class Decoder {
  public:
    Decoder(const std::uint8_t* data, std::size_t size) : bytes_(data, size) {}

    ScoreRequest request() {
        ScoreRequest r;
        // Mostly one type and one dimension for both sides, or hardly anything would pass.
        dtype_ = token_type();
        dim_ = bytes_.ConsumeIntegralInRange<std::int64_t>(1, 9);
        r.q = token_set();
        r.d = token_set();
        r.pairing = static_cast<Pairing>(bytes_.ConsumeIntegralInRange(0, 3));
        if (r.pairing == Pairing::list || rarely()) {
            r.pair_q = int_list();
            r.pair_d = int_list();
        }
        r.options.normalize = bytes_.ConsumeBool();
        r.options.validate = bytes_.ConsumeBool();
        r.options.threads = 1;
        r.options.kernel = "cpu.scalar4";
        return r;
    }

    // Results of exactly this shape.
    TensorView array(DType dtype, const std::vector<std::int64_t>& shape) {
        TensorView view(nullptr, dtype, std::span(shape));
        view.data = block(static_cast<std::size_t>(view.numel()) * size_of(dtype), 0);
        return view;
    }

    // When the bytes run out they read as 0: the likely branch.
    bool often() { return bytes_.ConsumeIntegral<std::uint8_t>() % 4 != 3; }
    bool rarely() { return bytes_.ConsumeIntegral<std::uint8_t>() % 16 == 15; }

  private:
    DType token_type() { return static_cast<DType>(bytes_.ConsumeIntegralInRange(0, rarely() ? 9 : 3)); }
    DType any_type() { return static_cast<DType>(bytes_.ConsumeIntegralInRange(0, 9)); }
    DType int_type() { return often() ? (bytes_.ConsumeBool() ? DType::i32 : DType::i64) : any_type(); }

    std::int64_t length() {
        return rarely() ? bytes_.ConsumeIntegral<std::int64_t>() : bytes_.ConsumeIntegralInRange<std::int64_t>(0, 6);
    }

    std::int64_t stride() {
        return rarely() ? bytes_.ConsumeIntegral<std::int64_t>() : bytes_.ConsumeIntegralInRange<std::int64_t>(-20, 20);
    }

    // A heap block of fuzzed bytes, or of small integers of the type where those are wanted (offsets, lists, masks).
    std::byte* block(std::size_t size, std::size_t skew) {
        blocks_.emplace_back(new std::byte[size + skew]);
        std::byte* memory = blocks_.back().get() + skew;
        const std::vector<std::uint8_t> fill = bytes_.ConsumeBytes<std::uint8_t>(std::min<std::size_t>(size, 64));
        for (std::size_t i = 0; i < size; ++i)
            memory[i] = fill.empty() ? std::byte{} : std::byte{fill[i % fill.size()]};
        return memory;
    }

    void fill_with_small_integers(std::byte* memory, std::size_t count, DType dtype) {
        std::int64_t value = 0;
        for (std::size_t i = 0; i < count; ++i) {
            const auto step = bytes_.ConsumeIntegralInRange<std::int64_t>(0, 3);
            value = often() && value < most_bytes ? value + step : length();
            if (dtype == DType::i32) {
                const auto narrow = static_cast<std::int32_t>(value);
                std::memcpy(memory + 4 * i, &narrow, 4);
            } else {
                std::memcpy(memory + 8 * i, &value, 8);
            }
        }
    }

    // Gives `view` memory that holds all its elements and nothing more; none where that would be too much.
    void place(TensorView& view) {
        std::int64_t lowest = 0;
        std::int64_t highest = 0;
        std::int64_t elements = 1;
        for (int i = 0; i < view.ndim; ++i) {
            if (view.shape[i] <= 0) return;
            const __int128 reach = (static_cast<__int128>(view.shape[i]) - 1) * view.stride[i];
            if (view.shape[i] > most_elements || reach < -most_bytes || reach > most_bytes) return;
            (reach < 0 ? lowest : highest) += static_cast<std::int64_t>(reach);
            elements *= view.shape[i];
            if (elements > most_elements) return;
        }
        const std::int64_t span = highest - lowest + 1;
        if (span > most_bytes / 8) return;
        const std::size_t skew = rarely() ? 1 : 0;
        std::byte* memory = block(static_cast<std::size_t>(span) * size_of(view.dtype), skew);
        const bool integers = view.dtype == DType::i32 || view.dtype == DType::i64;
        if (integers) fill_with_small_integers(memory, static_cast<std::size_t>(span), view.dtype);
        view.data = memory + static_cast<std::ptrdiff_t>(-lowest) * static_cast<std::ptrdiff_t>(size_of(view.dtype));
    }

    TensorView view(DType dtype, std::vector<std::int64_t> shape) {
        TensorView v(nullptr, dtype, std::span(std::as_const(shape)));
        if (!often()) {
            for (int i = 0; i < v.ndim; ++i) v.stride[i] = stride();
        }
        if (!rarely()) place(v);
        return v;
    }

    std::vector<std::int64_t> shape(int least, int most) {
        std::vector<std::int64_t> s(static_cast<std::size_t>(bytes_.ConsumeIntegralInRange(least, most)));
        for (std::int64_t& size : s) size = length();
        return s;
    }

    TensorView int_list() { return view(int_type(), often() ? shape(1, 1) : shape(0, 4)); }

    TensorView tokens(int least, int most) {
        std::vector<std::int64_t> s = shape(least, most);
        if (!s.empty() && !rarely()) s.back() = dim_;
        return view(rarely() ? token_type() : dtype_, s);
    }

    TensorView mask_of(const TensorView& tokens) {
        if (tokens.ndim < 1 || rarely()) return view(any_type(), shape(0, 4));
        std::vector<std::int64_t> s(tokens.shape.begin(), tokens.shape.begin() + tokens.ndim - 1);
        for (std::int64_t& size : s) {
            if (!often()) size = 1;
        }
        return view(any_type(), s);
    }

    TokenSet token_set() {
        TokenSet set;
        const int layout = bytes_.ConsumeIntegralInRange(0, 3);
        set.tokens = layout < 2 ? tokens(2, 4) : tokens(rarely() ? 0 : 2, rarely() ? 4 : 2);
        if (layout == 1 || rarely()) set.mask = mask_of(set.tokens);
        if (layout == 2 || rarely()) set.cu_seqlens = int_list();
        if (layout == 3 || rarely()) set.offsets = int_list();
        if (layout == 3 || rarely()) set.lengths = int_list();
        if (rarely()) set.max_seqlen = length();
        return set;
    }

    FuzzedDataProvider bytes_;
    DType dtype_ = DType::f32;
    std::int64_t dim_ = 1;
    std::vector<std::unique_ptr<std::byte[]>> blocks_;
};

bool small(const core::Params& params) {
    const std::int64_t items = std::max(params.q.count, params.d.count);
    if (params.pairs.count > most_work || items > most_work) return false;
    const __int128 work = static_cast<__int128>(params.pairs.count + 1) * (params.q.max_length + 1) *
                          (params.d.max_length + 1) * params.dim;
    const __int128 rows = static_cast<__int128>(params.q.total_rows + params.d.total_rows) * params.dim;
    return work <= most_work && rows <= most_work;
}

double read(const TensorView& view, std::size_t i) {
    return view.dtype == DType::f64 ? static_cast<const double*>(view.data)[i]
                                    : static_cast<const float*>(view.data)[i];
}

// The largest absolute value among a side's tokens; infinite where one is not a number.
double largest(const core::Params& params, const core::Segments& side) {
    double most = 0;
    for (std::int64_t i = 0; i < side.count; ++i) {
        const core::Segment segment = side.at(i);
        for (std::int64_t t = 0; t < segment.length; ++t) {
            for (const double x : core::reference::widen_row(params, side, segment, t))
                most = std::isnan(x) ? std::numeric_limits<double>::infinity() : std::max(most, std::fabs(x));
        }
    }
    return most;
}

// True where no similarity overflows float32, that of a token which loses included: an infinite product less another
// is NaN, and NaN wins.
bool tame(const core::Params& params) {
    return largest(params, params.q) * largest(params, params.d) * static_cast<double>(params.dim) < 1e30;
}

// The kernel sees what the oracle sees; where float cannot overflow or vanish, it also says the same.
void compare(const core::Params& params, const core::reference::Scores& want, const TensorView& scores,
             const TensorView& index) {
    for (std::size_t i = 0; i < want.index.size(); ++i) {
        const std::int32_t got = static_cast<const std::int32_t*>(index.data)[i];
        expect((got == -1) == (want.index[i] == -1));
        expect(got >= -1 && got < params.d.max_length);
    }
    if (params.normalize || !tame(params)) return;
    for (std::size_t p = 0; p < want.scores.size(); ++p) {
        const double scale = want.scale[p];
        if (!(scale > 1e-25)) continue;
        expect(std::fabs(read(scores, p) - want.scores[p]) <= 1e-5 * scale);
    }
}

void run(Decoder& decoder, const ScoreRequest& request) {
    const core::Problem problem = core::make_problem(request);
    if (!small(problem.params)) return;
    ScoreOutputs outputs;
    outputs.scores = decoder.array(problem.shape.dtype, problem.shape.scores);
    outputs.index = decoder.array(DType::i32, problem.shape.tokens);
    score(request, outputs);
    compare(problem.params, core::reference::score(problem.params), outputs.scores, outputs.index);

    // Backward from the true index, or from whatever an array holds.
    if (decoder.rarely()) outputs.index = decoder.array(DType::i32, problem.shape.tokens);
    const auto like = [&](const TensorView& tokens) {
        return decoder.array(tokens.dtype, {tokens.shape.begin(), tokens.shape.begin() + tokens.ndim});
    };
    score_backward(request, outputs.index, outputs.scores, like(request.q.tokens), like(request.d.tokens));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Decoder decoder(data, size);
    fuzz::attempt([&] { run(decoder, decoder.request()); });
    return 0;
}
