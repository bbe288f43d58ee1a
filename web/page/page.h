// report.html: one file that shows a whole capture without a network request.
//
// The page itself (web/, built into this program by esbuild) is the same for every capture. This code inserts
// the capture's data. Page and data always have the same version, so that their format is internal:
// docs/report-html.md.
#ifndef LOCKSTEP_WEB_PAGE_PAGE_H_
#define LOCKSTEP_WEB_PAGE_PAGE_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/files/byte_sink.h"
#include "capture/model/capture.h"
#include "report/report.h"

namespace lockstep::web {

struct PageInput {
  const capture::Capture& capture;
  const report::Analysis& analysis;  // analysis of that capture
  std::string source;                // name of the capture in command lines; may be empty
};

// Writes the whole document. The caller calls Finish(). It has no effect except on the sink. Names in the
// capture may have any content.
absl::Status WritePage(const PageInput& input, ByteSink& sink);

// Returns the page without data.
std::string_view PageTemplate();

}  // namespace lockstep::web

#endif  // LOCKSTEP_WEB_PAGE_PAGE_H_
