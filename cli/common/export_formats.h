// The formats that `lockstep export` and `lockstep trace --formats` write: one row of a table each.
#ifndef LOCKSTEP_CLI_EXPORT_FORMATS_H_
#define LOCKSTEP_CLI_EXPORT_FORMATS_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "aggregator/trace/writers.h"
#include "capture/model/capture.h"
#include "report/report.h"

namespace lockstep::cli {

struct ExportJob {
  const store::Capture& capture;
  const report::Analysis& analysis;
  // Which are written, places in the capture. A format with all ranks in one file writes the capture, which
  // has no others.
  std::vector<uint32_t> ranks;
  std::string output;  // file or folder, as the format has it; does not exist, or may be replaced
  trace::WriteProgress progress = {};
};

enum class ExportShape {
  kFile,         // all ranks in one
  kFolder,       // several files for all ranks
  kFilePerRank,  // a folder; or a file where its name ends in .json or .gz and there is one rank
};

struct ExportFormat {
  const char* name;
  const char* about;  // one line of --help
  ExportShape shape;
  const char* in_folder;  // its place in a capture's folder (contract.md)
  absl::Status (*write)(const ExportJob& job);
};

std::span<const ExportFormat> ExportFormats();
// "kineto, perfetto, ..."
std::string FormatNames();
// kInvalidArgument: no such format; the sentence lists them.
absl::StatusOr<const ExportFormat*> FindFormat(std::string_view name);
// "kineto,perfetto"; "none" for none.
absl::StatusOr<std::vector<const ExportFormat*>> ParseFormats(std::string_view text);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_EXPORT_FORMATS_H_
