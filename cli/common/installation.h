// Finds the other programs and the client library of this installation.
#ifndef LOCKSTEP_CLI_COMMON_INSTALLATION_H_
#define LOCKSTEP_CLI_COMMON_INSTALLATION_H_

#include <string>

#include "absl/status/statusor.h"

namespace lockstep::cli {

// Searches relative to the running file: its folder, ../bin, ../libexec and ../lib, and for the client
// library also the folders for one architecture below ../lib. In a bundle the running file is the bundle's
// loader in lib/. The static starters in ../bin are therefore found before the real programs in ../libexec,
// which need the starters.
class Installation {
 public:
  // Searches from the running program.
  static Installation OfThisProgram();
  // `folder` is the folder of the running file.
  explicit Installation(std::string folder) : folder_(std::move(folder)) {}

  // kNotFound: the error names the searched places.
  absl::StatusOr<std::string> Program(const std::string& name) const;
  absl::StatusOr<std::string> ClientLibrary() const;
  // The folder of the running file.
  const std::string& folder() const { return folder_; }

 private:
  std::string folder_;
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_COMMON_INSTALLATION_H_
