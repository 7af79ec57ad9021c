// Ranked results as one .npy: a structured array [queries, k] with the fields "index" and "score".
#pragma once

#include "cli/ranking.hpp"
#include "io/output_file.hpp"

namespace rowmax::cli {

void write_hits_npy(io::OutputFile& out, const Ranking& ranking);

}  // namespace rowmax::cli
