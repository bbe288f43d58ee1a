#include "cli/common/installation.h"

#include <limits.h>
#include <unistd.h>

#include <cstdlib>
#include <initializer_list>

#include "absl/strings/str_cat.h"
#include "base/client_entry.h"

namespace lockstep::cli {
namespace {

absl::StatusOr<std::string> Find(const std::string& folder, const std::string& name, int mode,
                                 std::initializer_list<const char*> places) {
  std::string tried;
  for (const char* place : places) {
    const std::string path = absl::StrCat(folder, place, "/", name);
    char real[PATH_MAX];
    if (::access(path.c_str(), mode) == 0 && ::realpath(path.c_str(), real) != nullptr)
      return std::string(real);
    absl::StrAppend(&tried, tried.empty() ? "" : ", ", path);
  }
  return absl::NotFoundError(absl::StrCat(name, " is missing from this installation; searched ", tried));
}

}  // namespace

Installation Installation::OfThisProgram() {
  char path[PATH_MAX];
  const ssize_t n = ::readlink("/proc/self/exe", path, sizeof(path) - 1);
  std::string file(path, n > 0 ? static_cast<size_t>(n) : 0);
  const size_t slash = file.rfind('/');
  return Installation(slash == std::string::npos ? "." : file.substr(0, slash));
}

absl::StatusOr<std::string> Installation::Program(const std::string& name) const {
  // In a build tree and in /usr/bin the programs are in one folder.
  return Find(folder_, name, X_OK, {"", "/../bin", "/../libexec"});
}

absl::StatusOr<std::string> Installation::ClientLibrary() const {
  return Find(folder_, kClientLibrary, R_OK,
              {"", "/../lib", "/../lib/lockstep", "/../lib/" LOCKSTEP_MULTIARCH "/lockstep",
               "/../lib64/lockstep", "/../libexec"});
}

}  // namespace lockstep::cli
