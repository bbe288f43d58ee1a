// The report: one value that the text, JSON and HTML writers print, and the one call that makes it.
//
// Fields mirror report.json (docs/formats/report.md, schema lockstep.report/1); std::nullopt is the
// document's null: unknown, never 0.
#ifndef LOCKSTEP_AGGREGATOR_REPORT_REPORT_H_
#define LOCKSTEP_AGGREGATOR_REPORT_REPORT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "analysis/prepare/steps.h"
#include "base/files/byte_sink.h"
#include "capture/align/clock_model.h"
#include "capture/align/match.h"
#include "capture/model/capture.h"
#include "report/model.h"

namespace lockstep::report {

struct AnalyzeOptions {
  // Regular expression on kernel names: the user's rule for what is communication besides the known ones.
  std::string communication_pattern;
  unsigned threads = 0;  // 0: as many as the machine has; the bytes of the report are the same for any number
};

// Everything that is computed from a capture: what the report prints, and what the trace writers need
// besides.
struct Analysis {
  align::Matches matches;
  align::ClockModel clock;
  analysis::Steps steps;
  std::vector<int32_t> stage_of;  // by rank index: its pipeline stage, -1: unknown; empty without pipelines
  Report report;
  // What `matches` and `steps` are of where a communication pattern made a capture of its own; null: the one
  // that was given.
  std::shared_ptr<const store::Capture> reclassified;
};

// Pure: the same capture gives the same analysis. `capture` must be Finish()ed.
Analysis Analyze(const store::Capture& capture, const AnalyzeOptions& options = {});

struct TextOptions {
  int width = 100;  // columns of the terminal
  bool color = false;
  int top = 5;  // rows of each list, at most 8
  // How a command line names this capture (a folder, an id, a file); empty: no commands are printed.
  std::string source;
  bool has_traces = false;  // `source` is a capture's folder, with merged.pftrace in it
};
// For a person on call, in 20 lines of 100 columns (more where the terminal is narrower): the first two are
// enough to page the right one. What does not fit is left out, least important first; the document has all of
// it.
std::string RenderText(const Report& report, const TextOptions& options = {});

// The first sentence of that text: who it is, how sure, and what fixing it gains.
std::string VerdictSentence(const Report& report);

// One JSON document, schema lockstep.report/1, ending in a newline.
absl::Status WriteJson(const Report& report, store::ByteSink& sink);

}  // namespace lockstep::report

#endif  // LOCKSTEP_AGGREGATOR_REPORT_REPORT_H_
