// The values that completion offers beside those in the option table: columns of views, captures, jobs.
#ifndef LOCKSTEP_CLI_CANDIDATE_SOURCES_H_
#define LOCKSTEP_CLI_CANDIDATE_SOURCES_H_

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cli {

struct Candidate {
  std::string text;
  std::string about;  // a phrase in one line; empty: none
};

// Returns the value of the first of an option's names on the command line; empty: not given.
using ValueOfOption = std::function<std::string(std::string_view name)>;

// Each function returns an empty list if it finds nothing, and prints nothing.
struct CandidateSources {
  std::function<std::vector<Candidate>(const std::string& command, const ValueOfOption& option)> columns;
  // `typed` is the part of the word that is there already.
  std::function<std::vector<Candidate>(const std::string& typed)> captures;
  std::function<std::vector<Candidate>(const ValueOfOption& option)> jobs;
};

// The program's sources: the catalog of views, this user's captures and those in folders, and the jobs of the
// aggregator or the node's daemon. Jobs are left out if the answer takes longer than 250 ms; the thread that
// asks then continues until the process ends.
CandidateSources ProgramSources();

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_CANDIDATE_SOURCES_H_
