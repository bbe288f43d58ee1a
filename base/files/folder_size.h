// The size of a folder.
#ifndef LOCKSTEP_BASE_FILES_FOLDER_SIZE_H_
#define LOCKSTEP_BASE_FILES_FOLDER_SIZE_H_

#include <cstdint>
#include <string>

namespace lockstep {

// Returns the bytes of the regular files below `folder`. It does not follow links, and skips files that it
// cannot read.
uint64_t FolderBytes(const std::string& folder);

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_FILES_FOLDER_SIZE_H_
