// EXPECT_ERROR: a call throws rowmax::Error with this code, and its message holds every text.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>

#include "rowmax/error.hpp"

namespace rowmax::test {

inline ::testing::AssertionResult throws_error(const std::function<void()>& call, ErrorCode code,
                                               std::initializer_list<std::string_view> texts) {
    try {
        call();
    } catch (const Error& error) {
        const std::string message = error.what();
        if (error.code() != code) {
            return ::testing::AssertionFailure() << "code " << static_cast<int>(error.code()) << ": " << message;
        }
        for (const std::string_view text : texts) {
            if (message.find(text) == std::string::npos) {
                return ::testing::AssertionFailure() << "'" << text << "' is not in: " << message;
            }
        }
        return ::testing::AssertionSuccess();
    }
    return ::testing::AssertionFailure() << "nothing was thrown";
}

}  // namespace rowmax::test

#define EXPECT_ERROR(call, code, ...) \
    EXPECT_TRUE(::rowmax::test::throws_error([&] { call; }, ::rowmax::ErrorCode::code, {__VA_ARGS__}))
