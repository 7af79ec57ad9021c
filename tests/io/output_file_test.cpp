#include "io/output_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "io/in_child.hpp"
#include "io/output_folder.hpp"
#include "io/support.hpp"
#include "io/temporary_names.hpp"
#include "rowmax/corpus.hpp"

namespace rowmax::test {
namespace {

using io::OutputFile;

class OutputFileTest : public FileTest {};

TEST_F(OutputFileTest, AppearsWholeAtCommit) {
    OutputFile out(at("x"));
    out.write("hello ");
    out.write(std::string(1 << 20, 'x'));
    out.write_at(0, std::as_bytes(std::span("HELLO", 5)));
    EXPECT_EQ(out.size(), 6U + (1 << 20));
    EXPECT_FALSE(fs::exists(at("x")));
    out.commit();
    EXPECT_EQ(contents(at("x")), "HELLO " + std::string(1 << 20, 'x'));
    EXPECT_EQ(entries(), 1U);
}

TEST_F(OutputFileTest, DiscardedWithoutCommit) {
    write("x", "old");
    { OutputFile(at("x")).write("new"); }
    EXPECT_EQ(contents(at("x")), "old");
    EXPECT_EQ(entries(), 1U);
}

TEST_F(OutputFileTest, ReplacesAndKeepsMode) {
    write("x", "old");
    chmod(at("x").c_str(), 0640);
    OutputFile out(at("x"));
    out.write("new");
    out.commit();
    EXPECT_EQ(contents(at("x")), "new");
    EXPECT_EQ(fs::status(at("x")).permissions(), fs::perms(0640));
}

TEST_F(OutputFileTest, FollowsLinks) {
    write("real", "old");
    fs::create_symlink(at("real"), at("link"));
    OutputFile out(at("link"));
    out.write("new");
    out.commit();
    EXPECT_TRUE(fs::is_symlink(at("link")));
    EXPECT_EQ(contents(at("real")), "new");
}

TEST_F(OutputFileTest, NamesWithoutFolder) {
    const fs::path before = fs::current_path();
    fs::current_path(folder_);
    OutputFile out("plain");
    out.write("x");
    out.commit();
    fs::current_path(before);
    EXPECT_EQ(contents(at("plain")), "x");
}

TEST_F(OutputFileTest, LongNames) {
    const std::string name(250, 'n');
    OutputFile out(at(name));
    out.write("x");
    out.commit();
    EXPECT_EQ(contents(at(name)), "x");
}

TEST_F(OutputFileTest, WhatCannotBeWrittenIsNamed) {
    expect_error(ErrorCode::io, {folder_.string(), "directory"}, [&] { OutputFile out(folder_); });
    expect_error(ErrorCode::io, {at("no/x").string(), "No such file"}, [&] { OutputFile out(at("no/x")); });
    expect_error(ErrorCode::io, {at(std::string(300, 'n')).string()}, [&] {
        OutputFile out(at(std::string(300, 'n')));
        out.write("x");
        out.commit();
    });
    EXPECT_EQ(entries(), 0U);
}

TEST_F(OutputFileTest, DevicesAreWrittenDirectly) {
    OutputFile out("/dev/null");
    EXPECT_TRUE(out.direct());
    out.write("x");
    out.commit();
    expect_error(ErrorCode::io, {"/dev/full", "No space"}, [&] {
        OutputFile full("/dev/full");
        full.write("x");
        full.commit();
    });
    EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(OutputFileTest, PipesAreWrittenDirectly) {
    ASSERT_EQ(mkfifo(at("pipe").c_str(), 0600), 0);
    std::string got;
    std::thread reader([&] { got = contents(at("pipe")); });
    OutputFile out(at("pipe"));
    out.write("through");
    out.commit();
    reader.join();
    EXPECT_EQ(got, "through");
}

TEST_F(OutputFileTest, DashIsStandardOutput) {
    const int status = in_child([&] {
        const int fd = ::open(at("stdout").c_str(), O_CREAT | O_WRONLY, 0600);
        dup2(fd, STDOUT_FILENO);
        OutputFile out("-");
        out.write("one");
        out.commit();
        if (::write(STDOUT_FILENO, "two", 3) != 3) _exit(1);  // it stays open
    });
    EXPECT_EQ(status, 0);
    EXPECT_EQ(contents(at("stdout")), "onetwo");
}

TEST_F(OutputFileTest, KillLeavesNothing) {
    write("x", "old");
    const int status = in_child([&] {
        OutputFile out(at("x"));
        out.write(std::string(1 << 20, 'n'));
        raise(SIGKILL);
    });
    EXPECT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(contents(at("x")), "old");
    EXPECT_EQ(entries(), 1U);
}

// A file that may not grow further stands for a disk that is full.
TEST_F(OutputFileTest, FullDiskLeavesNothing) {
    const int status = in_child([&] {
        std::signal(SIGXFSZ, SIG_IGN);
        const rlimit limit{1 << 20, 1 << 20};
        setrlimit(RLIMIT_FSIZE, &limit);
        const std::vector<float> tokens(4096);
        CorpusWriter writer(at("c.rmx"), DType::f32, 4096);
        const auto fill = [&] {
            for (int i = 0; i < 1000; ++i) writer.append(TensorView(tokens.data(), DType::f32, {1, 4096}));
        };
        expect_error(ErrorCode::io, {"c.rmx", "cannot write"}, fill);
        expect_error(ErrorCode::io, {"c.rmx", "earlier"}, fill);
        expect_error(ErrorCode::io, {"c.rmx", "earlier"}, [&] { writer.commit(); });
        if (testing::Test::HasFailure()) _exit(1);
    });
    EXPECT_EQ(status, 0);
    EXPECT_EQ(entries(), 0U);
}

TEST_F(OutputFileTest, RememberedNamesAreRemovedBySignalHandlers) {
    const int status = in_child([&] {
        std::signal(SIGTERM, [](int) {
            io::remove_temporary_files();
            _exit(7);
        });
        const io::TemporaryName name(at("x"));
        std::ofstream(name.path()) << "half";
        raise(SIGTERM);
    });
    EXPECT_EQ(WEXITSTATUS(status), 7);
    EXPECT_EQ(entries(), 0U);
    fs::path forgotten;
    {
        const io::TemporaryName name(at("y"));
        forgotten = name.path();
    }
    std::ofstream(forgotten) << "kept";
    io::remove_temporary_files();
    EXPECT_TRUE(fs::exists(forgotten));
}

TEST_F(OutputFileTest, RememberedFoldersAreRemovedWithTheirFiles) {
    const int status = in_child([&] {
        const io::OutputFolder folder(at("index"));
        // More names than one system call lists, and a file that is still being written.
        for (int i = 0; i < 500; ++i) std::ofstream(folder.inside() / (std::to_string(i) + ".codes.npy")) << "done";
        const io::TemporaryName name(folder.inside() / "ivf.npy");
        std::ofstream(name.path()) << "half";
        io::remove_temporary_files();
        _exit(7);
    });
    EXPECT_EQ(WEXITSTATUS(status), 7);
    EXPECT_EQ(entries(), 0U);
}

TEST_F(OutputFileTest, ManyRememberedNames) {
    std::vector<std::unique_ptr<io::TemporaryName>> names;
    for (int i = 0; i < 100; ++i) names.push_back(std::make_unique<io::TemporaryName>(at("x")));
    for (const auto& name : names) std::ofstream(name->path()) << "half";
    EXPECT_EQ(entries(), 100U);
    io::remove_temporary_files();
    EXPECT_EQ(entries(), 36U);  // 64 are remembered
}

TEST_F(OutputFileTest, AppendsAnother) {
    OutputFile spool(at("x")), out(at("x"));
    for (int i = 0; i < 100'000; ++i) spool.write("0123456789");
    out.write("head ");
    out.append(spool);
    out.commit();
    EXPECT_EQ(fs::file_size(at("x")), 1'000'005U);
    EXPECT_EQ(contents(at("x")).substr(999'995), "0123456789");
}

}  // namespace
}  // namespace rowmax::test
