// Writes records/ while a capture runs: one append-only file per segment of a client process.
//
// Used by: aggregator/ingest. Any thread may append; appends to one file are in the order of the calls, and
// appends to different files do not wait for each other. What Append accepted is in the file (write(2) has
// returned) when it returns ok: it survives the end of this process, and is not synced to the disk before
// Close.
#ifndef LOCKSTEP_AGGREGATOR_STORE_RECORDS_WRITER_H_
#define LOCKSTEP_AGGREGATOR_STORE_RECORDS_WRITER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/fd.h"
#include "capture/store/records_manifest.h"

namespace lockstep::store {

// What one file belongs to.
struct SegmentKey {
  uint32_t process = 0;  // the caller's number: its place in Manifest::processes
  uint64_t incarnation = 0;
  auto operator<=>(const SegmentKey&) const = default;
};

class RecordsWriter {
 public:
  // Makes `folder`/records, which must not exist yet, and writes the open manifest.
  static absl::StatusOr<std::unique_ptr<RecordsWriter>> Create(const std::string& folder,
                                                               const Manifest& open);

  // kInvalidArgument: `blocks` are not blocks; nothing was written. Any other error: the file may hold a part
  // of them, which its reader takes for truncation, and nothing more is written to it. `rank` only names the
  // file.
  absl::Status Append(SegmentKey key, RankId rank, std::string_view blocks);

  // A piece of a process's file of that kind, in order: `offset` is where the last one ended. The file gets
  // its name with FinishTrace and is not there before. kInvalidArgument: out of order; any error ends the
  // file.
  absl::Status AppendTrace(const TraceFileOwner& owner, uint64_t offset, std::string_view bytes);
  absl::Status FinishTrace(const TraceFileOwner& owner);
  // Throws away what came of it.
  void DropTrace(const TraceFileOwner& owner);

  // The files of a process as they are now.
  std::vector<ManifestFile> Files(uint32_t process) const;
  // Its file of that kind, once it is whole.
  ManifestTrace Trace(uint32_t process, TraceFileKind kind) const;
  uint64_t bytes() const;

  // Syncs, then writes the manifest, which completes records/. Called once, after the last Append.
  absl::Status Close(const Manifest& manifest);

  const std::string& folder() const { return records_; }

 private:
  struct File {
    std::mutex mutex;
    Fd fd;
    ManifestFile entry;
    bool broken = false;
  };

  struct TraceWriting {
    Fd fd;
    ManifestTrace entry;
    bool whole = false;
    bool broken = false;
  };

  explicit RecordsWriter(std::string records) : records_(std::move(records)) {}
  absl::StatusOr<File*> Open(SegmentKey key, RankId rank);

  const std::string records_;
  mutable std::mutex mutex_;  // the map; a File has its own
  std::map<SegmentKey, std::unique_ptr<File>> files_;
  // One process's pieces come on one thread, so these are written under the lock of all.
  mutable std::mutex traces_mutex_;
  using TraceKey = std::pair<uint32_t, TraceFileKind>;  // by process
  static TraceKey KeyOf(const TraceFileOwner& owner) { return {owner.process, owner.kind}; }
  void Drop(TraceWriting& trace);
  std::map<TraceKey, TraceWriting> traces_;
};

}  // namespace lockstep::store

#endif  // LOCKSTEP_AGGREGATOR_STORE_RECORDS_WRITER_H_
