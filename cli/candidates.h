// Finds the words that can follow on a command line. Every shell's completion prints them.
#ifndef LOCKSTEP_CLI_CANDIDATES_H_
#define LOCKSTEP_CLI_CANDIDATES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/settings/option_table.h"
#include "cli/candidate_sources.h"

namespace lockstep::cli {

struct Candidates {
  std::vector<Candidate> found;
  // Other words that fit. The shell knows these better: files, or the programs of its search path.
  enum class More : uint8_t { kNothing, kFiles, kPrograms } more = More::kNothing;
};

// Completes the last of `words`, which follow `lockstep` and may end with an empty word. bash splits words at
// "=", the other shells do not; both forms are accepted. `sources` provides the values that are not in the
// option table.
Candidates CandidatesFor(const std::vector<settings::CommandHelp>& table, std::vector<std::string> words,
                         const CandidateSources& sources);

// Formats one line per candidate, as "WORD" or "WORD<tab>DESCRIPTION". A last line ":files" or ":programs"
// stands for `more`.
std::string CandidateLines(const Candidates& candidates);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_CANDIDATES_H_
