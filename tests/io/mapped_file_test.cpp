#include "io/mapped_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "io/support.hpp"

namespace rowmax::test {
namespace {

class MappedFileTest : public FileTest {};

TEST_F(MappedFileTest, MapsAWholeFile) {
    const auto file = io::MappedFile::open(write("x", "hello"));
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()), "hello");
    EXPECT_EQ(file->path(), at("x"));
}

TEST_F(MappedFileTest, AnEmptyFileHasNoBytes) {
    EXPECT_TRUE(io::MappedFile::open(write("x", ""))->bytes().empty());
}

TEST_F(MappedFileTest, WhatCannotBeMappedIsNamed) {
    expect_error(ErrorCode::io, {at("none").string(), "No such file"}, [&] { io::MappedFile::open(at("none")); });
    expect_error(ErrorCode::io, {folder_.string(), "directory"}, [&] { io::MappedFile::open(folder_); });
    ASSERT_EQ(mkfifo(at("pipe").c_str(), 0600), 0);
    expect_error(ErrorCode::io, {at("pipe").string(), "regular"}, [&] { io::MappedFile::open(at("pipe")); });
}

}  // namespace
}  // namespace rowmax::test
