// Engines compute a search: on the host, or on devices.
#pragma once

#include <memory>
#include <string>

#include "stream/search_state.hpp"

namespace rowmax::stream {

/// Moves a state, which outlives it, from its position to the end.
class Engine {
  public:
    virtual ~Engine() = default;
    /// Begins the next piece of work, of which there is some, and moves the position behind it.
    virtual void step() = 0;
    /// Returns when the lists hold everything up to the position.
    virtual void settle() {}
    /// Whether it can go on from there.
    [[nodiscard]] virtual bool takes(const SearchPosition& position) const = 0;
    /// The name of the kernel that scores; empty when there is nothing to score.
    [[nodiscard]] virtual std::string kernel() const = 0;
};

/// Both throw Error(out_of_memory) when `memory` is too little for one document, and Error(not_implemented) when no
/// kernel takes the tokens.
std::unique_ptr<Engine> host_engine(SearchState& state);
std::unique_ptr<Engine> device_engine(SearchState& state);

}  // namespace rowmax::stream
