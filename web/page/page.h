// report.html: one file that shows everything a capture tells, without asking anybody for anything.
//
// The page itself (web/, built by esbuild into this program) is the same for every capture; this puts a
// capture's data into it. How the data looks is a matter between the two, which are always of one version:
// docs/report-html.md.
#ifndef LOCKSTEP_AGGREGATOR_HTML_PAGE_H_
#define LOCKSTEP_AGGREGATOR_HTML_PAGE_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/files/byte_sink.h"
#include "capture/model/capture.h"
#include "report/report.h"

namespace lockstep::html {

struct PageInput {
  const store::Capture& capture;
  const report::Analysis& analysis;  // of that capture
  std::string source;                // how a command line names the capture; empty: it does not
};

// The whole document; Finish() is the caller's. Pure but for the sink: names of the capture may hold
// anything.
absl::Status WritePage(const PageInput& input, store::ByteSink& sink);

// The page without data.
std::string_view PageTemplate();

}  // namespace lockstep::html

#endif  // LOCKSTEP_AGGREGATOR_HTML_PAGE_H_
