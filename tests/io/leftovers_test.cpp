// Files and folders of temporary names: those of killed processes go, those that anybody writes stay.
#include "io/leftovers.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <csignal>
#include <set>

#include "io/descriptor.hpp"
#include "io/in_child.hpp"
#include "io/output_file.hpp"
#include "io/output_folder.hpp"
#include "io/support.hpp"
#include "io/temporary_names.hpp"

namespace rowmax::test {
namespace {

using io::OutputFile;
using io::OutputFolder;
using io::TemporaryName;

class LeftoversTest : public FileTest {
  protected:
    /// A child that has made something, and waits to be killed.
    pid_t waiting(const std::function<void()>& make) const {
        const pid_t child = child_doing([&] {
            make();
            kill(getpid(), SIGSTOP);
        });
        int status = 0;
        waitpid(child, &status, WUNTRACED);
        EXPECT_TRUE(WIFSTOPPED(status));
        return child;
    }

    static void kill_now(pid_t child) {
        kill(child, SIGKILL);
        EXPECT_TRUE(WIFSIGNALED(end_of(child)));
    }

    [[nodiscard]] std::set<std::string> names() const {
        std::set<std::string> found;
        for (const auto& entry : fs::directory_iterator(folder_)) found.insert(entry.path().filename().string());
        return found;
    }
};

/// A file as OutputFile has it from its name on: held under a temporary one. The descriptor stays open. False when
/// another process took it away before it was held.
bool make_named_file(const TemporaryName& name) {
    return io::hold(open(name.path().c_str(), O_RDWR | O_CREAT | O_EXCL, 0600), name.path());
}

TEST_F(LeftoversTest, OfAKilledProcessGoWithTheNextWriter) {
    kill_now(waiting([&] {
        new OutputFolder(at("index"));
        write(".index.tmp", "of somebody else");
        make_named_file(TemporaryName(at("run")));
    }));
    EXPECT_EQ(entries(), 3U);
    OutputFile(at("other")).commit();
    EXPECT_EQ(names(), (std::set<std::string>{".index.tmp", "other"}));
}

TEST_F(LeftoversTest, AFolderGoesWithItsFiles) {
    kill_now(waiting([&] {
        const auto* folder = new OutputFolder(at("index"));
        for (int i = 0; i < 20; ++i) OutputFile(folder->inside() / (std::to_string(i) + ".codes.npy")).commit();
        make_named_file(TemporaryName(folder->inside() / "ivf.npy"));
    }));
    EXPECT_EQ(entries(), 1U);
    OutputFolder again(at("index"));
    EXPECT_EQ(entries(), 1U);
    EXPECT_TRUE(fs::is_empty(again.inside()));
    again.commit();
    EXPECT_EQ(names(), std::set<std::string>{"index"});
}

TEST_F(LeftoversTest, OfALiveProcessStay) {
    const pid_t folder = waiting([&] { new OutputFolder(at("index")); });
    const pid_t file = waiting([&] { make_named_file(TemporaryName(at("run"))); });
    const OutputFolder mine(at("mine"));
    OutputFile(at("index.npy")).commit();
    io::remove_leftovers(folder_);
    EXPECT_EQ(entries(), 4U);
    kill_now(folder);
    io::remove_leftovers(folder_);
    EXPECT_EQ(entries(), 3U);
    kill_now(file);
    io::remove_leftovers(folder_);
    EXPECT_EQ(entries(), 2U);
    EXPECT_TRUE(fs::exists(mine.inside()));
}

// A child of the writer has its descriptors, and may be about to write.
TEST_F(LeftoversTest, HeldByAForkStay) {
    pid_t fork_of_it = 0;
    std::array<int, 2> pipe_ends{};
    ASSERT_EQ(pipe(pipe_ends.data()), 0);
    const pid_t writer = waiting([&] {
        new OutputFolder(at("index"));
        const pid_t child = child_doing([] { kill(getpid(), SIGSTOP); });
        if (::write(pipe_ends[1], &child, sizeof(child)) != sizeof(child)) _exit(1);
    });
    ASSERT_EQ(read(pipe_ends[0], &fork_of_it, sizeof(fork_of_it)), sizeof(fork_of_it));
    kill_now(writer);
    io::remove_leftovers(folder_);
    EXPECT_EQ(entries(), 1U);
    kill(fork_of_it, SIGKILL);
}

TEST_F(LeftoversTest, WhatOnlyLooksLikeOneStays) {
    const std::string name = TemporaryName(at("x")).path().filename().string();
    ASSERT_TRUE(io::is_temporary_name(name));
    std::string elsewhere = name;  // another machine's: its processes cannot be seen from here
    char& digit = elsewhere[elsewhere.find("rowmax-") + 7];
    digit = digit == '0' ? '1' : '0';
    const std::vector<std::string> others{
        elsewhere, name.substr(1), name + "x", name.substr(0, name.size() - 5) + ".tmp", ".x.12.3.tmp", ".x.tmp"};
    for (const std::string& other : others) {
        EXPECT_FALSE(io::is_temporary_name(other)) << other;
        write(other, "kept");
    }
    fs::create_symlink("x", at(name));  // no file and no folder of ours is a link
    ASSERT_EQ(mkfifo(at(TemporaryName(at("pipe")).path().filename()).c_str(), 0600), 0);
    const std::size_t before = entries();
    OutputFile(at("out")).commit();
    EXPECT_EQ(entries(), before + 1);
}

TEST_F(LeftoversTest, OfNamesWithTheMarkInThem) {
    const std::string inner = TemporaryName(at("x")).path().filename().string();
    EXPECT_TRUE(io::is_temporary_name(TemporaryName(at(inner)).path().filename().string()));
    EXPECT_TRUE(io::is_temporary_name(TemporaryName(at(std::string(250, 'n'))).path().filename().string()));
}

TEST_F(LeftoversTest, ANameThatExistsIsNotTaken) {
    // The names that come next, as a process of the same number in another container may have made them.
    const std::string name = TemporaryName(at("index")).path().string();
    const std::size_t dash = name.rfind('-');
    const int next = std::stoi(name.substr(dash + 1)) + 1;
    for (int i = 0; i < 3; ++i) fs::create_directory(name.substr(0, dash + 1) + std::to_string(next + i) + ".tmp");
    std::vector<io::Descriptor> live;
    for (const auto& entry : fs::directory_iterator(folder_)) {
        live.emplace_back(open(entry.path().c_str(), O_RDONLY | O_DIRECTORY));
        ASSERT_TRUE(io::lock(live.back().get()));
    }
    OutputFolder(at("index")).commit();
    EXPECT_EQ(entries(), 4U);
    EXPECT_TRUE(fs::exists(at("index")));
}

// Each writer sees the others' names at every stage; half of the processes are killed somewhere.
TEST_F(LeftoversTest, ManyWritersLoseNothing) {
    constexpr int rounds = 50;
    const auto work = [&](int number) {
        for (int i = 0; i < rounds; ++i) {
            const std::string name = std::to_string(number) + "-" + std::to_string(i);
            OutputFolder folder(at(name));
            OutputFile file(folder.inside() / "file");
            file.write("whole");
            file.commit();
            folder.commit();
            if (contents(at(name) / "file") != "whole") _exit(1);
            fs::remove_all(at(name));
            const TemporaryName left(at(name));  // until this process ends
            if (make_named_file(left) != fs::exists(left.path())) _exit(2);
        }
    };
    std::vector<pid_t> children;
    for (int number = 0; number < 6; ++number) children.push_back(child_doing([&] { work(number); }));
    for (int number = 3; number < 6; ++number) {
        usleep(20'000);
        kill(children[static_cast<std::size_t>(number)], SIGKILL);
    }
    for (int number = 0; number < 6; ++number) {
        const int status = end_of(children[static_cast<std::size_t>(number)]);
        EXPECT_TRUE(number >= 3 || status == 0) << number;
    }
    io::remove_leftovers(folder_);
    for (const std::string& name : names()) EXPECT_FALSE(name.starts_with('.')) << name;
}

}  // namespace
}  // namespace rowmax::test
