// Folders that Lockstep made and may therefore remove. A file in the folder marks it, and says what it holds.
//
// Nothing else that a user has on disk is removed, whatever its name is.
#ifndef LOCKSTEP_BASE_FILES_OWN_FOLDER_H_
#define LOCKSTEP_BASE_FILES_OWN_FOLDER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lockstep {

// The file that marks a folder. Its text tells the user what it is for.
inline constexpr char kOwnFolderMark[] = ".lockstep";

// An archive can be made again from a capture, so that one kind never replaces the other. kStoredCapture: in
// an aggregator's store.
enum class OwnFolder : uint8_t { kCapture, kOtf2Archive, kStoredCapture };

// Creates the marked folder `path`, which must not exist, with mode 0700. Returns the system's error.
absl::Status MakeOwnFolder(const std::string& path, OwnFolder kind);

// Creates a marked folder beside `path` and returns its path: "PATH.partial-" and six random characters. No
// other process has that name. The folders above `path` are created. kPermissionDenied: the system refuses.
absl::StatusOr<std::string> MakeFolderBeside(const std::string& path, OwnFolder kind);

// Returns true if `path` is a folder, not a link to one, that this user owns and that has the mark of `kind`.
bool IsOwnFolder(const std::string& path, OwnFolder kind);

// Removes a marked folder with everything in it, if it exists. kFailedPrecondition: it has no mark of `kind`,
// and nothing was removed. kPermissionDenied: the system refuses.
absl::Status RemoveOwnFolder(const std::string& path, OwnFolder kind);

// Renames the marked folder `from` to `target`. An old `target` is replaced if it has the mark of `kind` or
// is empty: it disappears only when `from` has its name. kFailedPrecondition: `target` is something else,
// which stays.
absl::Status MoveOwnFolder(const std::string& from, const std::string& target, OwnFolder kind);

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_FILES_OWN_FOLDER_H_
