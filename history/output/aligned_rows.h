// AlignedRows formats rows of texts as columns.
#ifndef LOCKSTEP_HISTORY_OUTPUT_ALIGNED_ROWS_H_
#define LOCKSTEP_HISTORY_OUTPUT_ALIGNED_ROWS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::history {

enum class Align : uint8_t { kLeft, kRight };

// One thread.
class AlignedRows {
 public:
  // `indent` blanks come before each row.
  AlignedRows(std::vector<Align> columns, size_t indent) : columns_(std::move(columns)), indent_(indent) {}

  // `cells` has one text per column.
  void Add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  // Returns the rows with line ends, without blanks at the end of a line.
  std::string Text() const;

 private:
  const std::vector<Align> columns_;
  const size_t indent_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace lockstep::history

#endif  // LOCKSTEP_HISTORY_OUTPUT_ALIGNED_ROWS_H_
