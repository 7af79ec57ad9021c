// Documents in a compressed form behind the face of a TokenSource. They are for searches: what reads numbers, as
// packing does, takes tokens as they are.
#pragma once

#include <memory>
#include <vector>

#include "io/plaid_index.hpp"
#include "io/token_source.hpp"
#include "rowmax/corpus.hpp"

namespace rowmax::io {

/// The documents of a corpus in a coarse form that it holds; its ids are not theirs.
TokenSource coded_tokens(const Corpus& corpus, Coarse form);

/// The documents of an index, a source for each of its chunks.
std::vector<TokenSource> coded_tokens(const std::shared_ptr<const PlaidIndex>& index);

}  // namespace rowmax::io
