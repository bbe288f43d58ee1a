// The table of formats that `lockstep export` and `lockstep trace --formats` write.
#ifndef LOCKSTEP_CLI_COMMON_EXPORT_FORMATS_H_
#define LOCKSTEP_CLI_COMMON_EXPORT_FORMATS_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "capture/model/capture.h"
#include "formats/common/write_progress.h"
#include "report/report.h"

namespace lockstep::cli {

struct ExportJob {
  const capture::Capture& capture;
  const report::Analysis& analysis;
  // Indexes of the ranks to write. A format with all ranks in one file writes the whole capture, from which
  // the caller has removed the others.
  std::vector<uint32_t> ranks;
  std::string output;      // file or folder, depending on the format; does not exist, or may be replaced
  bool partition = false;  // parquet only: a folder per capture and rank
  formats::WriteProgress progress = {};
};

enum class ExportShape {
  kFile,         // one file for all ranks
  kFolder,       // several files for all ranks
  kFilePerRank,  // a folder; or one file if the name ends in .json or .gz and there is one rank
};

struct ExportFormat {
  const char* name;
  const char* about;  // one line of --help
  ExportShape shape;
  const char* in_folder;  // file or folder in a capture's folder
  absl::Status (*write)(const ExportJob& job);
};

std::span<const ExportFormat> ExportFormats();
std::vector<std::string> FormatNames();
// kInvalidArgument: the format is unknown; the error lists the known ones.
absl::StatusOr<const ExportFormat*> FindFormat(std::string_view name);
// Parses for example "kineto,perfetto"; "none" gives an empty list.
absl::StatusOr<std::vector<const ExportFormat*>> ParseFormats(std::string_view text);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_COMMON_EXPORT_FORMATS_H_
