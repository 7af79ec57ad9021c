// A plain text table whose columns are as wide as what they hold.
#pragma once

#include <string>
#include <vector>

namespace rowmax::cli {

class Table {
  public:
    explicit Table(std::vector<std::string> header) : rows_{std::move(header)} {}
    void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
    /// One line a row, two blanks between columns, none at the end.
    [[nodiscard]] std::string text() const;

  private:
    std::vector<std::vector<std::string>> rows_;
};

}  // namespace rowmax::cli
