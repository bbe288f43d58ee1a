// Writes records/ while a capture runs: one append-only file per segment of a client process.
//
// Used by aggregator/captures. Any thread may append. Appends to one file keep the order of the calls, and
// appends to different files do not wait for each other. When Append returns ok, write(2) has returned. The
// data then survives the end of this process. It survives the end of the machine after Sync or Close.
#ifndef LOCKSTEP_CAPTURE_STORE_RECORDS_WRITER_H_
#define LOCKSTEP_CAPTURE_STORE_RECORDS_WRITER_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/fd.h"
#include "base/mutex.h"
#include "capture/store/records_manifest.h"

namespace lockstep::capture {

// Identifies the segment that a file belongs to.
struct SegmentKey {
  uint32_t process = 0;  // the caller's number: index into Manifest::processes
  uint64_t incarnation = 0;
  auto operator<=>(const SegmentKey&) const = default;
};

// The end of a file after a write. An empty name: nothing was written.
struct FileEnd {
  std::string name;  // plain file name
  uint64_t bytes = 0;
};

// A file of an earlier process that a writer continues.
struct KeptRecords {
  SegmentKey key;
  FileEnd end;
};
struct KeptTrace {
  TraceFileOwner owner;
  uint64_t bytes = 0;
  bool whole = false;
};

class RecordsWriter {
 public:
  // Creates `folder`/records, which must not exist yet, and writes the open manifest.
  static absl::StatusOr<std::unique_ptr<RecordsWriter>> Create(const std::string& folder,
                                                               const Manifest& open);

  // Continues `folder`/records of an earlier process, which has no manifest yet. Bytes beyond the given ends
  // are cut off, and records that are not given are deleted. kDataLoss: a file is shorter, or damaged.
  static absl::StatusOr<std::unique_ptr<RecordsWriter>> Continue(const std::string& folder,
                                                                 const std::vector<KeptRecords>& records,
                                                                 const std::vector<KeptTrace>& traces);

  // Returns the file's new end. kInvalidArgument: `blocks` are not blocks, and nothing was written. After any
  // other error, the part that was written is cut off. If that fails too, a reader takes the rest for
  // truncation, and nothing more is written to the file. `rank` is used only for the file's name.
  absl::StatusOr<FileEnd> Append(SegmentKey key, RankId rank, std::string_view blocks);

  // Appends a piece to a process's file of that kind; `offset` must be the end of the previous piece.
  // FinishTrace gives the file its name. kInvalidArgument: `offset` is wrong. Any error ends the file.
  absl::Status AppendTrace(const TraceFileOwner& owner, uint64_t offset, std::string_view bytes);
  absl::Status FinishTrace(const TraceFileOwner& owner);
  // Deletes the file unless it is finished.
  void DropTrace(const TraceFileOwner& owner);

  // The current files of a process.
  std::vector<ManifestFile> Files(uint32_t process) const;
  // The process's finished file of that kind; empty before FinishTrace.
  ManifestTrace Trace(uint32_t process, TraceFileKind kind) const;
  uint64_t bytes() const;

  // Waits until everything that was appended before is on disk. After an error, some of it may never be.
  absl::Status Sync();
  // Syncs the files, then writes the manifest, which completes records/. Call once, after the last Append.
  absl::Status Close(const Manifest& manifest);

  const std::string& folder() const { return records_; }

 private:
  struct File {
    Mutex mutex;
    Fd fd ABSL_GUARDED_BY(mutex);
    ManifestFile entry ABSL_GUARDED_BY(mutex);
    bool broken ABSL_GUARDED_BY(mutex) = false;
    bool unsynced ABSL_GUARDED_BY(mutex) = false;
  };

  struct TraceWriting {
    Fd fd;
    ManifestTrace entry;
    bool whole = false;
    bool broken = false;
    bool unsynced = false;
  };

  // A file to sync, by a descriptor of its own, so that no lock is held meanwhile.
  struct Unsynced {
    Fd fd;
    std::string name;
  };

  explicit RecordsWriter(std::string records) : records_(std::move(records)) {}
  absl::StatusOr<File*> Open(SegmentKey key, RankId rank);
  absl::Status Keep(const KeptRecords& kept);
  absl::Status Keep(const KeptTrace& kept);
  // Deletes the files of records that no entry names.
  void DeleteOthers();
  std::vector<Unsynced> TakeUnsynced();

  const std::string records_;
  mutable Mutex mutex_;  // taken before a File's
  std::map<SegmentKey, std::unique_ptr<File>> files_ ABSL_GUARDED_BY(mutex_);
  // The pieces of one process come on one thread, so one lock for all processes is enough.
  mutable Mutex traces_mutex_;
  using TraceKey = std::pair<uint32_t, TraceFileKind>;  // by process
  static TraceKey KeyOf(const TraceFileOwner& owner) { return {owner.process, owner.kind}; }
  void Drop(TraceWriting& trace) ABSL_EXCLUSIVE_LOCKS_REQUIRED(traces_mutex_);
  std::map<TraceKey, TraceWriting> traces_ ABSL_GUARDED_BY(traces_mutex_);
  std::atomic<bool> folder_unsynced_ = true;  // files were created or renamed
};

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_STORE_RECORDS_WRITER_H_
