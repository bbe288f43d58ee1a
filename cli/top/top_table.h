// The tables of `lockstep top`: columns that fit a width, the least important left out first. Pure.
#ifndef LOCKSTEP_CLI_TOP_TABLE_H_
#define LOCKSTEP_CLI_TOP_TABLE_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "cli/top/top_model.h"

namespace lockstep::cli {

// Title and rows. The title of the column that the rows are sorted by is marked.
std::vector<std::string> RankTable(const std::vector<const v1::SampleRank*>& rows, TopSort sort,
                                   size_t width);
// The groups with the greatest skew; empty where none is known.
std::vector<std::string> GroupTable(const v1::Sample& sample, size_t most, size_t width);

// Columns that a text takes on a terminal: one per character of UTF-8.
size_t Columns(std::string_view text);
// At most `width` columns of it, without control characters.
std::string Fitted(std::string_view text, size_t width);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_TOP_TABLE_H_
