// Programs and libraries that a process has loaded, and addresses of their symbols. All of it is read from
// the process's memory, so files that the process sees in another place or has replaced do not matter.
#ifndef LOCKSTEP_DAEMON_STACKS_LOADED_IMAGE_H_
#define LOCKSTEP_DAEMON_STACKS_LOADED_IMAGE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/stacks/memory.h"

namespace lockstep::daemon {

struct LoadedImage {
  uint64_t begin = 0;  // address of the file's first byte
  std::string path;    // as the process sees it
};

// Parses /proc/<pid>/maps. Returns the files that are mapped from their first byte, by address.
std::vector<LoadedImage> LoadedImages(std::string_view maps);

// Returns the address of a symbol that the image exports. Nothing: it exports no such symbol, is not a 64-bit
// ELF file, or has damaged tables.
std::optional<uint64_t> FindSymbol(const Memory& memory, const LoadedImage& image, std::string_view name);

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_STACKS_LOADED_IMAGE_H_
