// Analyze() makes the report as one value. The text, JSON and HTML writers print that value.
//
// The fields mirror report.json (docs/formats/report.md, schema lockstep.report/1). std::nullopt is the
// document's null: unknown, never 0.
#ifndef LOCKSTEP_REPORT_REPORT_H_
#define LOCKSTEP_REPORT_REPORT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "analysis/prepare/steps.h"
#include "base/files/byte_sink.h"
#include "capture/align/clock_model.h"
#include "capture/align/match.h"
#include "capture/model/capture.h"
#include "capture/model/disk_rows.h"
#include "report/model.h"

namespace lockstep::report {

struct AnalyzeOptions {
  // Regular expression on kernel names. Matching kernels count as communication, in addition to the known
  // ones.
  std::string communication_pattern;
  unsigned threads = 0;               // 0: one per core; the bytes of the report are the same for any number
  capture::DiskRows* disk = nullptr;  // takes large tables; null: they stay in memory
};

// The results of the analysis of a capture: those that the report prints, and those that only the trace
// writers need.
struct Analysis {
  capture::Matches matches;
  capture::ClockModel clock;
  analysis::Steps steps;
  std::vector<int32_t>
      stage_of;  // by rank index: its pipeline stage, -1: unknown; empty: the job has no pipeline
  Report report;
  // The capture that `matches` and `steps` refer to, if a communication pattern made a changed copy. Null:
  // the given capture.
  std::shared_ptr<const capture::Capture> reclassified;
};

// Pure: the same capture gives the same analysis. `capture` must be Finish()ed.
Analysis Analyze(const capture::Capture& capture, const AnalyzeOptions& options = {});

struct TextOptions {
  int width = 100;  // columns of the terminal
  bool color = false;
  int top = 5;  // rows of each list, at most 8
  // The number of lines on a page of 100 columns; a narrower page has more. The least important lines are
  // left out, and the last line says so. 0: no limit, for files.
  int lines = 20;
  // The capture's name on a command line (a folder, an id, a file). Empty: the text has no commands.
  std::string source;
  bool has_traces = false;  // `source` is the folder of a capture and has merged.pftrace in it
};
// Formats the report for the person on call. The first two lines suffice to page the right person.
std::string RenderText(const Report& report, const TextOptions& options = {});

// Returns the first sentence of that text: the straggler, the confidence, and the gain of fixing it.
std::string VerdictSentence(const Report& report);

// Writes one JSON document, schema lockstep.report/1, that ends in a newline. Fails with the sink's error.
absl::Status WriteJson(const Report& report, ByteSink& sink);

}  // namespace lockstep::report

#endif  // LOCKSTEP_REPORT_REPORT_H_
