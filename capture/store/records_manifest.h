// records/manifest.json: what a capture is, beside its rows. docs/formats/records.md.
#ifndef LOCKSTEP_AGGREGATOR_STORE_RECORDS_MANIFEST_H_
#define LOCKSTEP_AGGREGATOR_STORE_RECORDS_MANIFEST_H_

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

namespace lockstep::store {

inline constexpr char kRecordsSchema[] = "lockstep.records/1";
inline constexpr char kManifestName[] = "manifest.json";
// The same document as it stood when the capture began; gone once manifest.json is written.
inline constexpr char kOpenManifestName[] = "manifest.open.json";

// One segment of one client process: string ids of different files never mix.
struct ManifestFile {
  std::string name;  // plain file name
  uint64_t bytes = 0;
  RowCounts rows = {};
};

// What PyTorch's profiler wrote for a process, as gzip; bytes 0: there is none.
struct ManifestTrace {
  std::string name;  // plain file name
  uint64_t bytes = 0;
};

// What Python's profiler took of a process, as cProfile writes it, and when it did; bytes 0: there is none.
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
  // How it ended: "done", "failed", "gone" or "unfinished", and why where not done.
  std::string state;
  std::string text;
  Nanos late;  // T0 had passed by so much when it learned of it
  // How it was captured: "cupti" or "kineto".
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
  bool complete = false;  // every process that was armed has ended its part
  std::vector<RankId> missing_ranks;
  std::optional<StepSpan> wanted_steps;
  std::vector<std::string> notes;
  std::vector<Host> hosts;  // clock exchanges with them
  std::vector<ManifestProcess> processes;
};

// One JSON document ending in a newline.
std::string ManifestToJson(const Manifest& manifest);
// kInvalidArgument with the place for text that is not this document; fields of later versions are ignored.
absl::StatusOr<Manifest> ParseManifest(std::string_view json);

// A file's name says whose it is, so that a capture whose manifest is gone can still be read.
struct RecordsFile {
  RankId rank = kNoRank;
  uint32_t process = 0;  // place in Manifest::processes
  uint32_t number = 0;   // of the file in its capture
};
std::string RecordsFileName(const RecordsFile& file);
std::optional<RecordsFile> ParseRecordsFileName(std::string_view name);

// A file that came whole from a process's host: a ManifestTrace or a ManifestPythonProfile.
enum class TraceFileKind : uint8_t { kKineto, kPythonProfile };
struct TraceFileOwner {
  RankId rank = kNoRank;
  uint32_t process = 0;  // place in Manifest::processes
  TraceFileKind kind = TraceFileKind::kKineto;
};
std::string TraceFileName(const TraceFileOwner& owner);
std::optional<TraceFileOwner> ParseTraceFileName(std::string_view name);

// Is it a name this program would give a file: no folders, nothing hidden?
bool IsPlainFileName(std::string_view name);

}  // namespace lockstep::store

#endif  // LOCKSTEP_AGGREGATOR_STORE_RECORDS_MANIFEST_H_
