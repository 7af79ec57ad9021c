// rowmax inspect, of a PLAID index.
#pragma once

#include <string>

namespace rowmax::cli {

/// What is in the index, as text or as JSON. `deep`: every code is compared with the table.
std::string index_report(const std::string& folder, bool deep, bool json);

}  // namespace rowmax::cli
