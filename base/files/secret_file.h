// Reads and writes files that hold secrets: tokens, private keys.
#ifndef LOCKSTEP_BASE_FILES_SECRET_FILE_H_
#define LOCKSTEP_BASE_FILES_SECRET_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/fd.h"

namespace lockstep {

// kFollowed: the files of a Kubernetes volume are links. The file at their end is checked.
enum class Links : uint8_t { kRefused, kFollowed };

// Returns the content of a file of at most `most_bytes`. The file must be regular, owned by this user or
// root, and closed to group and others. A file of root may be readable for its group; if this user is root,
// only for root's group. kPermissionDenied states the problem and the remedy. `what` begins the messages:
// "token file".
absl::StatusOr<std::string> ReadSecretFile(const std::string& path, std::string_view what, size_t most_bytes,
                                           Links links);

// As ReadSecretFile, for a file that is open for reading. `path` is for messages.
absl::StatusOr<std::string> ReadOpenSecretFile(const Fd& fd, const std::string& path, std::string_view what,
                                               size_t most_bytes);

// Creates the file (mode 0600) with all of `bytes`, or not at all. kAlreadyExists: there is one; it stays as
// it is.
absl::Status CreateSecretFile(const std::string& path, std::string_view what, std::string_view bytes);

// Writes a small file (mode `mode`, whatever the umask) in place of one that may exist. A reader sees the old
// or the new content. The new content is on the disk when the call returns.
absl::Status ReplaceFile(const std::string& path, std::string_view what, std::string_view bytes,
                         unsigned mode);

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_FILES_SECRET_FILE_H_
