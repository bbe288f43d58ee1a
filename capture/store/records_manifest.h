// records/manifest.json: the facts of a capture beside its rows. See docs/formats/records.md.
#ifndef LOCKSTEP_CAPTURE_STORE_RECORDS_MANIFEST_H_
#define LOCKSTEP_CAPTURE_STORE_RECORDS_MANIFEST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "base/time.h"
#include "capture/model/capture.h"
#include "capture/store/records_blocks.h"

namespace lockstep::capture {

inline constexpr char kRecordsSchema[] = "lockstep.records/1";
inline constexpr char kManifestName[] = "manifest.json";
// The same document as of the capture's start; deleted after manifest.json is written.
inline constexpr char kOpenManifestName[] = "manifest.open.json";

// The file of one segment of a client process. String ids of different files never mix.
struct ManifestFile {
  std::string name;  // plain file name
  uint64_t bytes = 0;
  RowCounts rows = {};
};

// The gzip file that PyTorch's profiler wrote for a process. bytes 0: none.
struct ManifestTrace {
  std::string name;  // plain file name
  uint64_t bytes = 0;
};

// The file that Python's profiler wrote for a process, in cProfile's format, and its interval. bytes 0: none.
struct ManifestPythonProfile {
  std::string name;  // plain file name
  uint64_t bytes = 0;
  HostInterval window;  // on the host's clock
};

struct ManifestProcess {
  RankId rank = kNoRank;
  uint32_t host = kNone;  // into Manifest::hosts
  int32_t pid = 0;
  uint64_t start_ticks = 0;
  uint32_t uid = 0;
  uint32_t incarnation = 1;
  std::string program;
  std::string rank_source;
  HostInterval window;
  // Final state: "done", "failed", "gone" or "unfinished". `text` has the reason unless it is done.
  std::string state;
  std::string text;
  // The reason why its window closed before the requested end; empty: it did not, or the user closed it.
  std::string cut;
  Nanos late;  // time by which T0 had passed when the process learned of it
  // Method of capture: "cupti" or "kineto".
  std::string via = "cupti";
  ManifestTrace trace;
  ManifestPythonProfile python_profile;
  std::vector<ManifestFile> files;
  std::vector<Loss> losses;
};

struct Manifest {
  std::string id;
  std::string job;
  uint32_t uid = 0;
  int32_t world_size = 0;
  uint32_t activities = 0;
  JobTime t0;
  JobTime t1;
  Nanos requested;        // length of every process's window; 0: it depended on a trigger, or is not known
  bool complete = false;  // every armed process has ended its part
  std::vector<RankId> missing_ranks;
  std::optional<StepSpan> wanted_steps;
  std::vector<std::string> notes;
  std::vector<Host> hosts;  // with their clock exchanges
  std::vector<ManifestProcess> processes;
};

// Returns one JSON document that ends in a newline.
std::string ManifestToJson(const Manifest& manifest);
// Returns kInvalidArgument with the reason if the text is not this document. Ignores fields of later
// versions.
absl::StatusOr<Manifest> ParseManifest(std::string_view json);

// A file's name contains its owner, so that a capture without a manifest can still be read.
struct RecordsFile {
  RankId rank = kNoRank;
  uint32_t process = 0;  // index into Manifest::processes
  uint32_t number = 0;   // number of the file in its capture
};
std::string RecordsFileName(const RecordsFile& file);
std::optional<RecordsFile> ParseRecordsFileName(std::string_view name);

// A file other than records that comes from a process's host: a ManifestTrace or a ManifestPythonProfile.
enum class TraceFileKind : uint8_t { kKineto, kPythonProfile };
struct TraceFileOwner {
  RankId rank = kNoRank;
  uint32_t process = 0;  // index into Manifest::processes
  TraceFileKind kind = TraceFileKind::kKineto;
};
std::string TraceFileName(const TraceFileOwner& owner);
std::optional<TraceFileOwner> ParseTraceFileName(std::string_view name);

// True for a name that this program would give a file: no folders, not hidden.
bool IsPlainFileName(std::string_view name);

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_STORE_RECORDS_MANIFEST_H_
