// What a person asks to be fixed, as written on a command line: kinds of targets and their values. Nothing
// here knows a capture; whatif.h finds what a target stands for. Pure, any thread.
#ifndef LOCKSTEP_AGGREGATOR_ANALYSIS_FIX_TARGETS_H_
#define LOCKSTEP_AGGREGATOR_ANALYSIS_FIX_TARGETS_H_

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
// "rank=5,op=gemm.*": a comma separates where a known name and '=' follow, so that a regular expression may
// hold others. kInvalidArgument says what would be right.
absl::StatusOr<std::vector<FixTarget>> ParseFixTargets(std::string_view text);

// What ParseFixTargets reads, in a sentence for a person.
inline constexpr char kFixGrammar[] =
    "rank=N, host=NAME, stage=N, link=N, group=NAME or op=REGEX, several with commas between";

// A number or a run of them, first and last: "5" or "4-7".
std::optional<std::pair<int32_t, int32_t>> ParseRange(std::string_view text);

}  // namespace lockstep::analysis

#endif  // LOCKSTEP_AGGREGATOR_ANALYSIS_FIX_TARGETS_H_
