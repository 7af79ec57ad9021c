#include "io/progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace rowmax::io {

namespace {

constexpr std::string_view erase_line = "\r\x1b[K";
constexpr int bar_width = 30;

std::string duration(double seconds) {
    const auto s = std::lround(std::max(0.0, seconds));
    if (s < 3600) return fmt::format("{}:{:02}", s / 60, s % 60);
    return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

std::string drawn(double share) {
    const int full = static_cast<int>(share * bar_width);
    return fmt::format("[{:#>{}}{:.>{}}]", "", full, "", bar_width - full);
}

}  // namespace

ProgressBar::ProgressBar(std::ostream& stream, std::string label, Options options)
    : stream_(stream), label_(std::move(label)), options_(std::move(options)), start_(options_.clock()) {}

ProgressBar::~ProgressBar() {
    if (shown_ && options_.style == Style::bar) stream_ << erase_line << std::flush;
}

std::string ProgressBar::text(std::int64_t done, std::int64_t total, double seconds, bool with_bar) const {
    const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
    if (total <= 0) return fmt::format("{}: {} {}, {:.0f}/s", label_, done, options_.unit, rate);
    const double share = std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0);
    const std::string bar = with_bar ? drawn(share) + " " : "";
    const std::string left = done > 0 ? duration(seconds * (1 - share) / share) : "?";
    return fmt::format("{}: {}{:3.0f}% {}/{} {}, {:.0f}/s, {} left", label_, bar, share * 100, done, total,
                       options_.unit, rate, left);
}

// What fits: all of it, or without the bar, or the beginning of that.
std::string ProgressBar::line(std::int64_t done, std::int64_t total, double seconds) const {
    if (options_.style != Style::bar) return text(done, total, seconds, false);
    const int columns = options_.columns();
    const auto room = columns > 0 ? static_cast<std::size_t>(columns - 1) : std::string::npos;  // the last one may wrap
    const std::string whole = text(done, total, seconds, true);
    return whole.size() <= room ? whole : text(done, total, seconds, false).substr(0, room);
}

void ProgressBar::update(std::int64_t done, std::int64_t total) {
    done_ = done;
    if (options_.style == Style::silent) return;
    const Time now = options_.clock();
    const auto interval = options_.style == Style::bar ? options_.interval : options_.interval * 100;
    if (now - start_ < options_.delay || (shown_ && now - last_ < interval)) return;
    last_ = now;
    shown_ = true;
    const std::string shown = line(done, total, std::chrono::duration<double>(now - start_).count());
    if (options_.style == Style::bar) {
        stream_ << erase_line << shown << std::flush;
    } else {
        stream_ << shown << '\n' << std::flush;
    }
}

void ProgressBar::finish() {
    if (!shown_) return;
    shown_ = false;
    if (options_.style == Style::bar) {
        stream_ << erase_line << std::flush;
        return;
    }
    const double seconds = std::chrono::duration<double>(options_.clock() - start_).count();
    stream_ << fmt::format("{}: {} {} in {}\n", label_, done_, options_.unit, duration(seconds)) << std::flush;
}

ProgressFn ProgressBar::callback() {
    return [this](std::int64_t done, std::int64_t total) { update(done, total); };
}

}  // namespace rowmax::io
