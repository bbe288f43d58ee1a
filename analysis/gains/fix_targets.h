// Targets of a fix as written on a command line: their kinds and values. Independent of any capture; whatif.h
// resolves them. Pure, any thread.
#ifndef LOCKSTEP_ANALYSIS_GAINS_FIX_TARGETS_H_
#define LOCKSTEP_ANALYSIS_GAINS_FIX_TARGETS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep::analysis {

enum class FixKind : uint8_t { kRank, kHost, kStage, kLink, kGroup, kOperation };
std::string_view FixKindName(FixKind kind);  // as on the command line: "rank", …, "op"

struct FixTarget {
  FixKind kind;
  std::string value;  // as written
};
// Parses "rank=5,op=gemm.*". A comma separates only before a known name and '=', so that a regular expression
// may contain commas. kInvalidArgument describes the valid form.
absl::StatusOr<std::vector<FixTarget>> ParseFixTargets(std::string_view text);

// The form that ParseFixTargets reads, for messages to the user.
inline constexpr char kFixGrammar[] =
    "rank=N, host=NAME, stage=N, link=N, group=NAME or op=REGEX, several with commas between";

// Parses a number or a range of numbers into first and last: "5" or "4-7".
std::optional<std::pair<int32_t, int32_t>> ParseRange(std::string_view text);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_ANALYSIS_GAINS_FIX_TARGETS_H_
