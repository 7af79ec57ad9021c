#include "cli/search_checkpoints.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "cli/exit_code.hpp"
#include "cli/shared.hpp"
#include "stream/checkpoint.hpp"

namespace rowmax::cli {

Checkpoints::Checkpoints(stream::Search& search, std::string path, std::string identity, double seconds)
    : search_(search), path_(std::move(path)), identity_(std::move(identity)), every_(seconds) {}

void Checkpoints::resume() {
    if (path_.empty()) return;
    const stream::ResumeResult result = stream::resume_checkpoint(path_, identity_, search_);
    if (result.outcome == stream::Resumed::foreign) {
        throw UsageError(
            fmt::format("--checkpoint {}: this file is no checkpoint of a search, and would be lost; remove it, or "
                        "name another",
                        path_));
    }
    if (result.outcome == stream::Resumed::refused)
        say(fmt::format("starting afresh: {} cannot be continued, {}", path_, result.reason));
    if (result.outcome == stream::Resumed::taken)
        say(fmt::format("continuing from {} ({:.1f} % done)", path_, percent()));
}

void Checkpoints::tick() {
    if (path_.empty() || Seconds(Clock::now() - saved_at_).count() < every_) return;
    save();
}

bool Checkpoints::save() {
    if (path_.empty()) return false;
    search_.settle();  // work, not saving
    const Clock::time_point start = Clock::now();
    stream::save_checkpoint(path_, identity_, search_);
    saved_at_ = Clock::now();
    saved_ = search_.pairs_done();
    every_ = std::max(every_, 20 * Seconds(saved_at_ - start).count());
    return true;
}

void Checkpoints::finish() {
    tick();
    if (saved_ > 0 && saved_ < search_.pairs_done()) save();
}

void Checkpoints::remove() const {
    std::error_code absent;
    if (!path_.empty()) std::filesystem::remove(path_, absent);
}

double Checkpoints::percent() const {
    return 100.0 * static_cast<double>(search_.pairs_done()) /
           static_cast<double>(std::max<std::int64_t>(search_.pairs_total(), 1));
}

}  // namespace rowmax::cli
