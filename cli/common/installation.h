// Where the other programs and the client library of this installation are.
#ifndef LOCKSTEP_CLI_SIBLINGS_H_
#define LOCKSTEP_CLI_SIBLINGS_H_

#include <string>

#include "absl/status/statusor.h"

namespace lockstep::cli {

// Searches relative to the file that runs: beside it, ../bin, ../libexec, ../lib, and for the client
// library the folders that systems have under ../lib for one processor. In a bundle that file is
// the bundle's own loader in lib/, so the static starters in ../bin come before the real programs in
// ../libexec, which cannot start without them.
class Siblings {
 public:
  // Of the running program.
  static Siblings OfThisProgram();
  // `folder` is where the running file lies.
  explicit Siblings(std::string folder) : folder_(std::move(folder)) {}

  // kNotFound names the places.
  absl::StatusOr<std::string> Program(const std::string& name) const;
  absl::StatusOr<std::string> ClientLibrary() const;
  // Where the running file lies.
  const std::string& folder() const { return folder_; }

 private:
  std::string folder_;
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_SIBLINGS_H_
