// The tables of `lockstep top`. If the width is too small, the least important columns are left out. Pure
// functions.
#ifndef LOCKSTEP_CLI_TOP_TOP_TABLE_H_
#define LOCKSTEP_CLI_TOP_TOP_TABLE_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "cli/top/top_model.h"

namespace lockstep::cli {

// Returns title and rows. The title of the sort column is marked.
std::vector<std::string> RankTable(const std::vector<const v1::SampleRank*>& rows, TopSort sort,
                                   size_t width);
// Returns the groups with the greatest arrival skew, or nothing if none is known.
std::vector<std::string> GroupTable(const v1::Sample& sample, size_t most, size_t width);

// Returns the number of columns that a text needs on a terminal: one per UTF-8 character.
size_t Columns(std::string_view text);
// Returns at most `width` columns of the text, without control characters.
std::string Fitted(std::string_view text, size_t width);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_TOP_TOP_TABLE_H_
