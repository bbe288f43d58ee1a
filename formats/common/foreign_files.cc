#include "formats/common/foreign_files.h"

#include <algorithm>
#include <array>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace lockstep::formats {
namespace {

enum class Kind { kNone, kNsysReport, kNsysStream, kComputeReport, kVisualProfiler };

struct Ending {
  std::string_view text;
  Kind kind;
};
constexpr std::array kEndings = {
    Ending{".nsys-rep", Kind::kNsysReport}, Ending{".qdrep", Kind::kNsysReport},
    Ending{".qdstrm", Kind::kNsysStream},   Ending{".ncu-rep", Kind::kComputeReport},
    Ending{".nvvp", Kind::kVisualProfiler}, Ending{".nvprof", Kind::kVisualProfiler},
};

Kind KindOfName(std::string_view name) {
  for (const Ending& ending : kEndings) {
    if (name.size() > ending.text.size() && name.ends_with(ending.text)) return ending.kind;
  }
  return Kind::kNone;
}

// Quotes a path for a shell if it needs quotes.
std::string ShellWord(std::string_view word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           std::string_view("_./-+=:,@%").find(c) != std::string_view::npos;
  });
  if (plain) return std::string(word);
  std::string quoted = "'";
  for (const char c : word) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

std::string WithEnding(std::string_view path, std::string_view ending) {
  const size_t dot = path.rfind('.');
  const size_t slash = path.rfind('/');
  const bool has_ending =
      dot != std::string_view::npos && (slash == std::string_view::npos || dot > slash + 1);
  return std::string(has_ending ? path.substr(0, dot) : path).append(ending);
}

std::string Export(std::string_view report) {
  return absl::StrCat("nsys export --type sqlite --include-blobs=true -o ",
                      ShellWord(WithEnding(report, ".sqlite")), " ", ShellWord(report));
}

// The recordings of these profilers cannot be converted, because they lack what an analysis needs.
constexpr char kRecordAgain[] =
    "record the job again: nsys profile --trace=cuda,nvtx -o job COMMAND && nsys export --type sqlite "
    "--include-blobs=true -o job.sqlite job.nsys-rep";

constexpr char kPrintTrace[] = "--print-gpu-trace --csv --normalized-time-unit ns --log-file ";

}  // namespace

bool HasForeignEnding(std::string_view name) { return KindOfName(name) != Kind::kNone; }

std::string WhyForeign(std::string_view path, std::string_view first_bytes) {
  if (first_bytes.starts_with("SQLite format 3")) return "";
  // The first bytes of a report of Nsight Compute ("File Format" in its documentation).
  const bool compute = first_bytes.starts_with(std::string_view("NVR\0", 4));
  switch (compute ? Kind::kComputeReport : KindOfName(path)) {
    case Kind::kNsysReport:
      return absl::StrCat(" is a report of Nsight Systems, which only nsys reads; convert it: ",
                          Export(path));
    case Kind::kNsysStream:
      return absl::StrCat(" is an unfinished recording of Nsight Systems; convert it: QdstrmImporter -i ",
                          ShellWord(path), " && ", Export(WithEnding(path, ".nsys-rep")));
    case Kind::kComputeReport:
      return absl::StrCat(" is a report of Nsight Compute, which has no timeline; ", kRecordAgain);
    case Kind::kVisualProfiler:
      return absl::StrCat(" is a session of NVIDIA's Visual Profiler, which lockstep does not read; ",
                          kRecordAgain);
    case Kind::kNone:
      break;
  }
  return "";
}

std::string WhyNvprofDatabase(std::string_view path) {
  return absl::StrCat(" is a database of nvprof; print it: nvprof --import-profile ", ShellWord(path), " ",
                      kPrintTrace, ShellWord(WithEnding(path, ".csv")));
}

bool IsNvprofText(std::string_view first_bytes) {
  // nvprof begins its messages with its process number, also in the file of --log-file. The job's own output
  // may come before them.
  for (const std::string_view words : {"== NVPROF is profiling process ", "== Profiling result:"}) {
    if (first_bytes.find(words) != std::string_view::npos) return true;
  }
  return first_bytes.starts_with("\"Start\",\"Duration\",") ||
         first_bytes.starts_with("\"Type\",\"Time(%)\",") ||
         first_bytes.starts_with("\"Time(%)\",\"Time\",\"Calls\",");
}

std::string WhyNotNvprofTrace() {
  return absl::StrCat(
      " is output of nvprof without kernels, copies and sets in CSV; print them: nvprof --print-api-trace ",
      kPrintTrace, "trace.csv COMMAND");
}

}  // namespace lockstep::formats
