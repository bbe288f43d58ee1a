// The captures that lie in the aggregator's folder, as rows of the index.
//
// A capture's files are read once, when it is first seen: what has ended does not change. So one look at a
// thousand captures is the listing of a folder.
#ifndef LOCKSTEP_AGGREGATOR_SITE_KEPT_CAPTURES_H_
#define LOCKSTEP_AGGREGATOR_SITE_KEPT_CAPTURES_H_

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "aggregator/site/index.h"
#include "base/fd.h"
#include "base/time.h"

namespace lockstep::site {

// One thread.
class KeptCaptures {
 public:
  // `now` is a clock that only goes forward.
  KeptCaptures(std::string folder, std::function<MonoTime()> now)
      : folder_(std::move(folder)), now_(std::move(now)) {}

  // Looks again: what is gone is forgotten; what is new is read, newest first, until `at_most` has passed
  // (one at least). Those of `running` are left alone: their files are not complete.
  void Refresh(const std::set<std::string>& running, Nanos at_most);

  // By id.
  const std::map<std::string, CaptureRow>& rows() const { return rows_; }
  // Seen by the last Refresh and not read yet.
  size_t unread() const { return unread_; }
  // A file of a capture that rows() has; not open where either is not there. `file` is one of kFiles.
  Fd Open(const std::string& id, std::string_view file) const;

  // What others may read of a capture.
  static constexpr std::string_view kFiles[] = {"report.html", "report.json", "report.txt"};

 private:
  CaptureRow Read(const std::string& id) const;

  const std::string folder_;
  const std::function<MonoTime()> now_;
  std::map<std::string, CaptureRow> rows_;
  size_t unread_ = 0;
};

}  // namespace lockstep::site

#endif  // LOCKSTEP_AGGREGATOR_SITE_KEPT_CAPTURES_H_
