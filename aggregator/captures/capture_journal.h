// CaptureJournal is the journal of a running capture: the file `journal` beside records/. A restarted
// aggregator resumes the capture from it (docs/formats/journal.md).
#ifndef LOCKSTEP_AGGREGATOR_CAPTURES_CAPTURE_JOURNAL_H_
#define LOCKSTEP_AGGREGATOR_CAPTURES_CAPTURE_JOURNAL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "aggregator/captures/selection.h"
#include "aggregator/nodes/seen_rank.h"
#include "base/fd.h"
#include "base/mutex.h"
#include "base/time.h"
#include "capture/store/records_writer.h"
#include "lockstep/v1/control.pb.h"
#include "lockstep/v1/ingest.pb.h"
#include "lockstep/v1/journal.pb.h"

namespace lockstep::aggregator {

v1::JournalBegin MakeJournalBegin(const std::string& capture, const Selection& selection,
                                  const v1::TraceRequest& request, JobTime made_at);
Selection JournaledSelection(const v1::JournalBegin& begin);
// Returns the process of a message that was stored.
const v1::ProcessKey& JournaledProcess(const v1::FromDaemon& message);
// Returns the message's number, or the last of its numbers.
uint64_t JournaledSequence(const v1::FromDaemon& message);

// The readable entries of a journal.
struct JournalContent {
  v1::JournalBegin begin;
  std::vector<v1::JournalEntry> entries;  // after it
};

// Thread-safe.
class CaptureJournal {
 public:
  // Returns true if the capture's folder has a journal.
  static bool Exists(const std::string& folder);
  // Reads the journal of a capture's folder up to the first torn entry. If a file is shorter than an entry
  // says, the machine ended before the file was on disk. That entry and all later ones of its daemon are left
  // out. kDataLoss: the journal has no readable begin, or another format.
  static absl::StatusOr<JournalContent> Read(const std::string& folder);
  // Writes the content to a new journal, which replaces that of the folder.
  static absl::StatusOr<std::unique_ptr<CaptureJournal>> Create(const std::string& folder,
                                                                const JournalContent& content);
  static void Remove(const std::string& folder);

  // A journal that keeps nothing, for captures that are not resumed.
  static std::unique_ptr<CaptureJournal> None();

  // When these return ok, write(2) has returned. After an error the entry is not in the journal.
  absl::Status AddStart(v1::JournalStart start);
  // `end` is the end of the rank's file after the batch; empty: it was not stored.
  absl::Status AddBatch(const DaemonKey& from, const v1::Batch& batch, const capture::FileEnd& end);
  absl::Status AddGap(const DaemonKey& from, const v1::Gap& gap, const absl::StatusOr<capture::FileEnd>& end);
  // `stored` is the result of storing the piece.
  absl::Status AddPiece(const DaemonKey& from, const v1::TraceFile& piece, const absl::Status& stored);
  absl::Status AddEnd(const DaemonKey& from, const v1::CaptureEnd& end);
  absl::Status AddHole(const std::string& node_id, uint64_t batches);
  absl::Status AddClock(const std::string& node_id, const v1::ClockSamples& samples);
  // Nothing more could be stored because of this error.
  absl::Status AddFailure(const std::string& text);
  // Waits until everything that was appended before is on disk.
  absl::Status Sync();

 private:
  CaptureJournal(Fd fd, std::string path, uint64_t bytes)
      : fd_(std::move(fd)), path_(std::move(path)), bytes_(bytes) {}

  absl::Status AddStored(const DaemonKey& from, const capture::FileEnd& end, uint64_t piece_bytes,
                         v1::FromDaemon message);
  absl::Status Append(const v1::JournalEntry& entry);

  const Fd fd_;
  const std::string path_;
  Mutex mutex_;
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_);  // of whole entries
  bool unsynced_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_CAPTURES_CAPTURE_JOURNAL_H_
