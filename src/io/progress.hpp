// Progress of long work: the library calls back, a front end draws.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <ostream>
#include <string>

namespace rowmax::io {

/// Called with what is done of `total` (-1: unknown). It may throw to stop the work, whose output is then discarded.
using ProgressFn = std::function<void(std::int64_t done, std::int64_t total)>;

/// Draws a bar on a stream that the caller hands in. Nothing appears in the first two seconds, so short work stays
/// silent.
class ProgressBar {
  public:
    enum class Style {
        silent,
        bar,    ///< one line, redrawn: for a terminal
        lines,  ///< a new line now and then: for logs
    };
    struct Options {
        Style style = Style::bar;
        std::string unit = "documents";
        std::chrono::milliseconds delay{2000};
        std::chrono::milliseconds interval{100};  ///< between redraws; lines: 100 times as long
        std::function<std::chrono::steady_clock::time_point()> clock = std::chrono::steady_clock::now;
        /// Width of the terminal, asked at every redraw: a line that wraps cannot be redrawn. 0: unknown.
        std::function<int()> columns = [] { return 0; };
    };

    ProgressBar(std::ostream& stream, std::string label, Options options);
    ~ProgressBar();  ///< erases an unfinished bar
    ProgressBar(const ProgressBar&) = delete;
    ProgressBar& operator=(const ProgressBar&) = delete;

    void update(std::int64_t done, std::int64_t total);
    /// Removes the bar; lines: says what was done and in what time, if anything was shown.
    void finish();
    /// A ProgressFn that updates this bar, which must outlive it.
    [[nodiscard]] ProgressFn callback();

  private:
    using Time = std::chrono::steady_clock::time_point;
    [[nodiscard]] std::string text(std::int64_t done, std::int64_t total, double seconds, bool with_bar) const;
    [[nodiscard]] std::string line(std::int64_t done, std::int64_t total, double seconds) const;
    std::ostream& stream_;
    std::string label_;
    Options options_;
    Time start_;
    Time last_{};
    bool shown_ = false;
    std::int64_t done_ = 0;
};

}  // namespace rowmax::io
