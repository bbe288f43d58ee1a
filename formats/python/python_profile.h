// Reads profiles of Python's cProfile, one file per rank: rank_0.cprofile, as cProfile.Profile.dump_stats and
// `lockstep trace` write them.
#ifndef LOCKSTEP_FORMATS_PYTHON_PYTHON_PROFILE_H_
#define LOCKSTEP_FORMATS_PYTHON_PYTHON_PROFILE_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "capture/model/python_profile.h"

namespace lockstep::formats {

// kInvalidArgument: the file is not a profile; the error names the file and the place of the damage.
absl::StatusOr<capture::PythonProfile> ParsePythonProfile(std::string_view bytes, const std::string& path);

// Finds the profiles of a folder, a capture's or any other. These are all *.cprofile in its profiles/, else
// in its records/, else in the folder itself.
std::vector<std::string> PythonProfilesIn(const std::string& folder);

// The rank comes from the file's name ("rank_3.cprofile"), else from its place in the list. kInvalidArgument:
// `paths` holds no profile, or two of one rank.
absl::StatusOr<std::vector<capture::PythonProfile>> ReadPythonProfiles(const std::vector<std::string>& paths);

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_PYTHON_PYTHON_PROFILE_H_
