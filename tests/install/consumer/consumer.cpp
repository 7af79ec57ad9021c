// A user's program in C++: the same score, and an exception caught by its type across the library's border.
#include <rowmax/rowmax.h>
#include <array>
#include <iostream>
#include <rowmax/maxsim.hpp>

int main() {
    const std::array<float, 4> q{1, 0, 0, 1};
    const std::array<float, 6> d{1, 2, 3, 0, 0, 0};
    rowmax::ScoreRequest request;
    request.q.tokens = {q.data(), rowmax::DType::f32, {2, 2}};
    request.d.tokens = {d.data(), rowmax::DType::f32, {3, 2}};
    float score = 0;
    rowmax::score(request, {{&score, rowmax::DType::f32, {}}, {}, {}});
    std::cout << rowmax::version() << ' ' << score << '\n';

    request.q.tokens.ndim = 1;
    try {
        rowmax::score(request, {});
    } catch (const rowmax::Error& error) {
        return error.code() == rowmax::ErrorCode::invalid_value ? 0 : 1;
    }
    return 1;
}
