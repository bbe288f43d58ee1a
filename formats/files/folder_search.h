// Finds the traces in a folder and in the folders inside it.
#ifndef LOCKSTEP_FORMATS_FILES_FOLDER_SEARCH_H_
#define LOCKSTEP_FORMATS_FILES_FOLDER_SEARCH_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep::formats {

// True for a folder that lockstep trace wrote.
bool IsCaptureFolder(const std::string& folder);

struct FoundTraces {
  std::vector<std::string> paths;  // each begins with the folder's path
  std::vector<std::string> notes;  // sentences about what is left out
};

// No job's traces are in more folders than that.
inline constexpr size_t kMostFolders = 100000;

// Returns the traces directly in the folder. If none of its files is a trace, it also returns those in the
// folders inside it, at most five levels deep. It leaves out captures, and folders whose name begins with a
// dot. kInvalidArgument: it found none, or more than `most_folders` folders.
absl::StatusOr<FoundTraces> FindTraces(const std::string& folder, size_t most_folders = kMostFolders);

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_FILES_FOLDER_SEARCH_H_
