// KeptCaptures lists the captures in the aggregator's folder as rows of the index.
//
// The files of a capture are read once, when it is first seen, because ended captures do not change.
// Refreshing a thousand known captures therefore costs only the listing of the folder.
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

namespace lockstep::aggregator {

// A file in a capture's folder: the reason why the aggregator made no report, as one line.
inline constexpr char kNoReportFile[] = "no-report.txt";

// One thread.
class KeptCaptures {
 public:
  // `now` is a monotonic clock.
  KeptCaptures(std::string folder, std::function<MonoTime()> now)
      : folder_(std::move(folder)), now_(std::move(now)) {}

  // Updates rows(): forgets removed captures and reads new ones, newest first. Stops reading after `at_most`,
  // but reads at least one. Skips the captures of `running`, because their files are not complete.
  void Refresh(const std::set<std::string>& running, Nanos at_most);

  // Returns the known captures by id.
  const std::map<std::string, CaptureRow>& rows() const { return rows_; }
  // Number of captures that the last Refresh saw but did not read.
  size_t unread() const { return unread_; }
  // Opens a file of a capture in rows(). `file` is one of kFiles. The descriptor is invalid if the capture or
  // the file does not exist.
  Fd Open(const std::string& id, std::string_view file) const;

  // The files of a capture that readers may fetch.
  static constexpr std::string_view kFiles[] = {"report.html", "report.json", "report.txt"};

 private:
  CaptureRow Read(const std::string& id) const;

  const std::string folder_;
  const std::function<MonoTime()> now_;
  std::map<std::string, CaptureRow> rows_;
  size_t unread_ = 0;
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_SITE_KEPT_CAPTURES_H_
