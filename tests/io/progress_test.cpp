#include "io/progress.hpp"

#include <gtest/gtest.h>

#include <sstream>

namespace rowmax::test {
namespace {

using namespace std::chrono_literals;
using io::ProgressBar;

class Progress : public testing::Test {
  protected:
    [[nodiscard]] ProgressBar::Options options(ProgressBar::Style style) {
        ProgressBar::Options options;
        options.style = style;
        options.clock = [this] { return now_; };
        return options;
    }
    std::chrono::steady_clock::time_point now_{100s};
    std::ostringstream out_;
};

TEST_F(Progress, ShortWorkIsSilent) {
    {
        ProgressBar bar(out_, "packing", options(ProgressBar::Style::bar));
        bar.update(1, 2);
        now_ += 1999ms;
        bar.update(2, 2);
        bar.finish();
    }
    EXPECT_EQ(out_.str(), "");
}

TEST_F(Progress, LongWorkDrawsOneLineAndRemovesIt) {
    ProgressBar bar(out_, "packing", options(ProgressBar::Style::bar));
    now_ += 4s;
    bar.update(25, 100);
    const std::string drawn = out_.str();
    EXPECT_NE(drawn.find("packing: [#######.......................]  25% 25/100 documents, 6/s, 0:12 left"),
              std::string::npos)
        << drawn;
    EXPECT_EQ(drawn.find('\n'), std::string::npos);
    now_ += 50ms;
    bar.update(26, 100);
    EXPECT_EQ(out_.str(), drawn);  // too soon to draw again
    now_ += 60ms;
    bar.update(27, 100);
    EXPECT_GT(out_.str().size(), drawn.size());
    bar.finish();
    EXPECT_TRUE(out_.str().ends_with("\r\x1b[K"));
}

TEST_F(Progress, StaysOnOneLineOfTheTerminal) {
    ProgressBar::Options narrow = options(ProgressBar::Style::bar);
    int columns = 0;
    narrow.columns = [&] { return columns; };
    ProgressBar bar(out_, "packing", narrow);
    for (columns = 1; columns < 120; ++columns) {
        now_ += 4s;
        out_.str("");
        bar.update(25, 100);
        const std::string line = out_.str().substr(4);  // after "\r\x1b[K"
        EXPECT_LT(line.size(), columns);
        EXPECT_EQ(line.substr(0, 8), std::string("packing:").substr(0, line.size()));
        const bool has_bar = line.find("[#######") != std::string::npos;
        EXPECT_TRUE(has_bar || columns < 90) << line;
        EXPECT_TRUE(!has_bar || columns > 70) << line;
    }
}

TEST_F(Progress, AnUnfinishedBarIsErased) {
    {
        ProgressBar bar(out_, "packing", options(ProgressBar::Style::bar));
        now_ += 4s;
        bar.callback()(25, 100);
    }
    EXPECT_TRUE(out_.str().ends_with("\r\x1b[K"));
}

TEST_F(Progress, LinesForLogs) {
    ProgressBar bar(out_, "search", options(ProgressBar::Style::lines));
    for (int i = 0; i < 40; ++i) {
        now_ += 1s;
        bar.update(i, -1);
    }
    bar.finish();
    const std::string text = out_.str();
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 5);  // at 2, 12, 22, 32 s, and the end
    EXPECT_NE(text.find("search: 1 documents, 0/s\n"), std::string::npos) << text;
    EXPECT_TRUE(text.ends_with("search: 39 documents in 0:40\n")) << text;
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST_F(Progress, SilentStaysSilent) {
    ProgressBar bar(out_, "x", options(ProgressBar::Style::silent));
    now_ += 100s;
    bar.update(1, 2);
    bar.finish();
    EXPECT_EQ(out_.str(), "");
}

TEST_F(Progress, HoursAndNothingDoneYet) {
    ProgressBar bar(out_, "x", options(ProgressBar::Style::bar));
    now_ += 3600s;
    bar.update(0, 10);
    EXPECT_NE(out_.str().find("? left"), std::string::npos);
    now_ += 1s;
    bar.update(1, 10);
    EXPECT_NE(out_.str().find("9:00:09 left"), std::string::npos) << out_.str();
    now_ += 1s;
    bar.update(11, 10);  // more than announced
    EXPECT_NE(out_.str().find("100% 11/10"), std::string::npos) << out_.str();
}

}  // namespace
}  // namespace rowmax::test
