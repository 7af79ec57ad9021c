// Ranked results as one .npy: a structured array [queries, k] with the fields "index" and "score".
#pragma once

#include "io/output_file.hpp"
#include "stream/search.hpp"

namespace rowmax::cli {

/// k is cut to the number of documents, so every row is full.
void write_hits_npy(io::OutputFile& out, const stream::Search& search);

}  // namespace rowmax::cli
