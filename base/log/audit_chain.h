// Verifies that the lines of audit logs are those that the programs wrote (docs/formats/audit.md).
//
// Each line has the hash of the line before it, in `prev`. The first line of a program's run has the hash of
// the last line that the file had then. Nobody can therefore change, remove or insert a line without a change
// of all later lines. The end is protected only by a hash that is known from elsewhere, such as the syslog of
// another host.
#ifndef LOCKSTEP_BASE_LOG_AUDIT_CHAIN_H_
#define LOCKSTEP_BASE_LOG_AUDIT_CHAIN_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

namespace lockstep {

// A line that does not fit.
struct AuditFault {
  size_t line = 0;   // in the text that Add received, from 1
  std::string text;  // a clause without a period
};

// Reads the files of one log, oldest first. One thread.
class AuditChain {
 public:
  // Returns the faults of the text, which is a whole file or a whole number of lines.
  std::vector<AuditFault> Add(std::string_view text);

  size_t lines() const { return lines_; }
  size_t runs() const { return last_of_run_.size(); }
  // Lines that a full disk cut off. The lines after them say how many are missing.
  size_t torn() const { return torn_; }
  // Returns whether the first line names a line before it, which may be in an older file.
  bool begins_late() const { return begins_late_; }
  // Returns the hash of the last line; empty if the log has no lines. If a later log has it (Has), that log
  // still has all lines up to this one.
  const std::string& head() const { return head_; }
  // Returns whether a line with that hash was read.
  bool Has(const std::string& hash) const { return hashes_.contains(hash); }

 private:
  // Returns the fault; empty if there is none.
  std::string AddLine(std::string_view line);

  absl::flat_hash_map<std::string, std::string> last_of_run_;  // hash of the last line
  absl::flat_hash_set<std::string> hashes_;                    // of all lines
  std::string head_;
  size_t lines_ = 0;
  size_t torn_ = 0;
  bool begins_late_ = false;
};

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_LOG_AUDIT_CHAIN_H_
