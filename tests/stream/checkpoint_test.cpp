// Checkpoints: written, read back, and refused when anything is not as it was.
#include "stream/checkpoint.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "stream/collection.hpp"
#include "stream/step_plan.hpp"
#include "support/throws.hpp"

namespace rowmax::stream {
namespace {

using test::collection;

class Checkpoint : public ::testing::Test {
  protected:
    Checkpoint() { std::filesystem::remove(path_); }
    ~Checkpoint() override { std::filesystem::remove(path_); }

    static Search small_search(std::int64_t k = 5) {
        SearchOptions options;
        options.k = k;
        options.memory = least_memory({6, 5, 16, 5, 4, false, 0}, 1) + 100000;
        options.score.threads = 1;
        return {collection(6, 5, 16, 1), {collection(100, 4, 16, 2)}, options};
    }
    void save_after(int steps) {
        Search search = small_search();
        for (int i = 0; i < steps; ++i) ASSERT_TRUE(search.step());
        save_checkpoint(path_, identity_, search);
    }
    [[nodiscard]] std::string content() const {
        std::ifstream file(path_, std::ios::binary);
        return {std::istreambuf_iterator<char>(file), {}};
    }
    void replace(const std::string& text) const { std::ofstream(path_, std::ios::binary) << text; }

    // Of this process alone: ctest runs the tests side by side.
    std::filesystem::path path_ =
        std::filesystem::path(::testing::TempDir()) / ("rowmax_checkpoint_test_" + std::to_string(getpid()));
    std::string identity_ = "k: 5\nqueries: six\n";
};

TEST_F(Checkpoint, BringsBackPositionAndHits) {
    save_after(1);
    Search search = small_search();
    EXPECT_EQ(resume_checkpoint(path_, identity_, search).outcome, Resumed::taken);
    Search other = small_search();
    other.step();
    EXPECT_EQ(search.pairs_done(), other.pairs_done());
    EXPECT_GT(search.pairs_done(), 0);
    for (std::int64_t i = 0; i < 6; ++i) {
        const auto a = search.ranked(i);
        const auto b = other.ranked(i);
        ASSERT_EQ(a.size(), b.size());
        for (std::size_t r = 0; r < a.size(); ++r) {
            EXPECT_EQ(a[r].document, b[r].document);
            EXPECT_EQ(a[r].score, b[r].score);
        }
    }
}

TEST_F(Checkpoint, MayBeAbsent) {
    Search search = small_search();
    EXPECT_EQ(resume_checkpoint(path_, identity_, search).outcome, Resumed::absent);
}

TEST_F(Checkpoint, OfAnotherSearchSaysWhatDiffers) {
    save_after(1);
    Search search = small_search();
    const ResumeResult other = resume_checkpoint(path_, "k: 6\nqueries: six\n", search);
    EXPECT_EQ(other.outcome, Resumed::refused);
    EXPECT_EQ(other.reason, "k: 5 in the checkpoint, 6 now");
    EXPECT_EQ(resume_checkpoint(path_, identity_ + "corpus 1: more\n", search).outcome, Resumed::refused);
    EXPECT_EQ(search.pairs_done(), 0);
}

TEST_F(Checkpoint, DamagedAnywhereIsRefused) {
    save_after(1);
    const std::string whole = content();
    const std::size_t first_line = whole.find('\n') + 1;  // without it, it is somebody else's file
    for (std::size_t at = 0; at < whole.size(); at += 7) {
        const Resumed cut = at > 0 && at < first_line ? Resumed::foreign : Resumed::refused;
        std::string damaged = whole;
        damaged[at] = static_cast<char>(damaged[at] ^ 0x20);
        replace(damaged);
        Search search = small_search();
        EXPECT_EQ(resume_checkpoint(path_, identity_, search).outcome,
                  at < first_line ? Resumed::foreign : Resumed::refused)
            << at;
        replace(whole.substr(0, at));
        EXPECT_EQ(resume_checkpoint(path_, identity_, search).outcome, cut) << at;
        EXPECT_EQ(search.pairs_done(), 0);
    }
}

// A well-formed file whose numbers do not fit the search: hits beyond k.
TEST_F(Checkpoint, WithTooManyHitsIsRefused) {
    save_after(1);
    Search search = small_search(3);
    EXPECT_EQ(resume_checkpoint(path_, identity_, search).outcome, Resumed::refused);
}

TEST_F(Checkpoint, ThatCannotBeWrittenLeavesTheOldOne) {
    save_after(1);
    const std::string before = content();
    const Search search = small_search();
    EXPECT_ERROR(save_checkpoint(path_.parent_path() / "no" / "folder", identity_, search), io, "no/folder");
    EXPECT_EQ(content(), before);
}

}  // namespace
}  // namespace rowmax::stream
