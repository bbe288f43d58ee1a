// Profiles of Python's cProfile, one file a rank: rank_0.cprofile, as cProfile.Profile.dump_stats and
// `lockstep trace` write them.
#ifndef LOCKSTEP_AGGREGATOR_TRACE_PYTHON_PROFILE_H_
#define LOCKSTEP_AGGREGATOR_TRACE_PYTHON_PROFILE_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "aggregator/store/python_profile.h"

namespace lockstep::trace {

// kInvalidArgument: the file is no profile; the sentence names it and says where it breaks off.
absl::StatusOr<store::PythonProfile> ParsePythonProfile(std::string_view bytes, const std::string& path);

// The profiles of a capture's folder, or of any other: all *.cprofile in its profiles/, else in its records/,
// else in itself.
std::vector<std::string> PythonProfilesIn(const std::string& folder);

// Each rank by its file's name ("rank_3.cprofile"), else by its place in the list. kInvalidArgument: no
// profile, two of one rank.
absl::StatusOr<std::vector<store::PythonProfile>> ReadPythonProfiles(const std::vector<std::string>& paths);

}  // namespace lockstep::trace

#endif  // LOCKSTEP_AGGREGATOR_TRACE_PYTHON_PROFILE_H_
