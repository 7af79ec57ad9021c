// What the file tests share: a folder of their own, and ways to say "this fails, and says why".
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "rowmax/error.hpp"
#include "rowmax/tensor.hpp"

namespace rowmax::test {

namespace fs = std::filesystem;

/// A test with an empty folder, removed afterwards.
class FileTest : public testing::Test {
  protected:
    void SetUp() override {
        std::string name = (fs::temp_directory_path() / "rowmax-test-XXXXXX").string();
        ASSERT_NE(mkdtemp(name.data()), nullptr);
        folder_ = name;
    }
    void TearDown() override { fs::remove_all(folder_); }

    [[nodiscard]] fs::path at(const std::string& name) const { return folder_ / name; }

    fs::path write(const std::string& name, std::string_view bytes) const {
        fs::remove(at(name));  // a new file each time: the old one may still be mapped
        std::ofstream(at(name), std::ios::binary) << bytes;
        return at(name);
    }

    [[nodiscard]] std::size_t entries() const {
        return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
    }

    fs::path folder_;
};

inline std::string contents(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    std::ostringstream out;
    out << in.rdbuf();
    return out.str();
}

/// Runs `work`, which must throw an Error of this code whose message contains every part.
inline void expect_error(ErrorCode code, const std::vector<std::string>& parts, const std::function<void()>& work) {
    try {
        work();
        ADD_FAILURE() << "no error; expected one about " << parts.front();
    } catch (const Error& error) {
        EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << error.what();
        for (const std::string& part : parts)
            EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
                << "'" << part << "' is missing in: " << error.what();
    }
}

/// Every byte of a contiguous view; reading them proves that they are there.
inline std::string bytes_of(const TensorView& view) {
    return {static_cast<const char*>(view.data), static_cast<std::size_t>(view.numel()) * size_of(view.dtype)};
}

template <class T>
std::vector<T> values_of(const TensorView& view) {
    std::vector<T> values(static_cast<std::size_t>(view.numel()));
    if (!values.empty()) std::memcpy(values.data(), view.data, values.size() * sizeof(T));
    return values;
}

inline std::vector<std::int64_t> shape_of(const TensorView& view) {
    return {view.shape.begin(), view.shape.begin() + view.ndim};
}

/// Cuts a valid file at every length and flips every bit (or one bit in each byte) of its first `flipped` bytes; `read`
/// gets each damaged file and may throw Error, nothing else. Returns how many damaged files were accepted.
inline int accepted_when_damaged(const std::string& file, std::size_t flipped,
                                 const std::function<void(const std::string&)>& read, bool every_bit = true) {
    int accepted = 0;
    const auto attempt = [&](const std::string& damaged) {
        try {
            read(damaged);
            ++accepted;
        } catch (const Error& error) {
            EXPECT_FALSE(std::string(error.what()).empty());
        }
    };
    for (std::size_t n = 0; n < file.size(); ++n) attempt(file.substr(0, n));
    for (std::size_t bit = 0; bit < 8 * std::min(flipped, file.size()); ++bit) {
        if (!every_bit && bit % 8 != bit / 8 % 8) continue;
        std::string damaged = file;
        damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
        attempt(damaged);
    }
    return accepted;
}

}  // namespace rowmax::test
