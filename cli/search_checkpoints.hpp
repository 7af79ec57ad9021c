// Saving a search now and then, so that a rerun of the same command continues it.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "stream/search.hpp"

namespace rowmax::cli {

class Checkpoints {
  public:
    /// `path` empty: none are kept. `identity`: of the search and its command. `seconds` between two checkpoints.
    Checkpoints(stream::Search& search, std::string path, std::string identity, double seconds);

    /// Goes on where a checkpoint of the same search ended, and says so. Throws UsageError for a file that is none.
    void resume();
    /// Saves if one is due: after the interval, or longer when saving itself takes its time.
    void tick();
    /// False when this search keeps no checkpoints.
    bool save();
    /// Before the output is written, which may fail: a search long enough to have been saved is saved whole.
    void finish();
    /// Whether one lies there.
    [[nodiscard]] bool any() const { return saved_ > 0; }
    void remove() const;

  private:
    using Clock = std::chrono::steady_clock;
    using Seconds = std::chrono::duration<double>;

    [[nodiscard]] double percent() const;

    stream::Search& search_;
    std::string path_;
    std::string identity_;
    double every_;
    Clock::time_point saved_at_ = Clock::now();
    std::int64_t saved_ = 0;
};

}  // namespace rowmax::cli
