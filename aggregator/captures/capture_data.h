// CaptureData stores the data of one capture: the ranks' records, and the trace files and Python profiles
// that come beside them. It counts what is lost, and keeps the journal from which a restarted aggregator
// resumes the capture.
//
// Thread-safe; the data of one rank must arrive one message at a time. Its lock guards the members and is not
// held while a file is written, because a slow disk must not delay the other daemons. It may be taken under a
// CaptureSession's lock. A rank is named by its place in the selection.
#ifndef LOCKSTEP_AGGREGATOR_CAPTURES_CAPTURE_DATA_H_
#define LOCKSTEP_AGGREGATOR_CAPTURES_CAPTURE_DATA_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "aggregator/captures/capture_journal.h"
#include "aggregator/captures/capture_size.h"
#include "aggregator/captures/selection.h"
#include "aggregator/captures/session_limits.h"
#include "aggregator/nodes/seen_rank.h"
#include "base/mutex.h"
#include "capture/store/records_writer.h"
#include "lockstep/v1/ingest.pb.h"
#include "lockstep/v1/journal.pb.h"
#include "wire/losses/loss_table.h"

namespace lockstep::aggregator {

// The stored data of one rank, for the manifest.
struct StoredRank {
  std::vector<capture::ManifestFile> files;
  capture::ManifestTrace trace;
  capture::ManifestPythonProfile profile;
  std::string no_profile;  // reason why there is no Python profile, if known
  bool trace_failed = false;
  std::vector<capture::Loss> losses;
};

class CaptureData {
 public:
  // `lost` counts each loss that the capture's report will show, and outlives this object.
  CaptureData(std::unique_ptr<capture::RecordsWriter> writer, std::unique_ptr<CaptureJournal> journal,
              const Selection& selection, const StoreLimits& limits, losses::LossTable& lost);

  // Errors of the three functions below say which data was not stored and why; it is counted as lost. After
  // an error of AddBatch or AddGap that is not kInvalidArgument, nothing more can be stored.
  absl::Status AddBatch(const DaemonKey& from, size_t rank, const v1::Batch& batch);
  // Counts the gap's losses, and stores its definitions with the rank's first batch or behind it.
  absl::Status AddGap(const DaemonKey& from, size_t rank, const v1::Gap& gap);
  // A file that remains incomplete is discarded.
  absl::Status AddPiece(const DaemonKey& from, size_t rank, const v1::TraceFile& piece);
  // Counts the losses of the process's end.
  absl::Status AddEnd(const DaemonKey& from, size_t rank, const v1::CaptureEnd& end);
  // `batches` sequence numbers of the rank's node never arrived and are not explained by a gap.
  absl::Status AddHole(const std::string& node_id, size_t rank, uint64_t batches);
  // The plan and the clocks are only noted in the journal.
  absl::Status AddStart(v1::JournalStart start) { return journal_->AddStart(std::move(start)); }
  absl::Status AddClock(const std::string& node_id, const v1::ClockSamples& samples) {
    return journal_->AddClock(node_id, samples);
  }

  // Counts what an earlier process stored, as the functions above did. `rank` is where the message came from.
  void Restore(size_t rank, const v1::JournalStored& stored);
  void RestoreHole(size_t rank, uint64_t batches);
  // Notes that the rank's trace file is finished or will never be. Returns the bytes that arrived.
  uint64_t EndTrace(size_t rank);

  uint64_t records() const;
  bool HasLosses(size_t rank) const;
  uint64_t LostRecords(size_t rank) const;
  // Returns the first error after which nothing more could be stored; empty: none.
  std::string error() const;
  void SetError(const std::string& text);
  // Waits until everything that was added before is on disk. After an error, some of it may never be.
  absl::Status Sync();
  // Returns the ranks in the order of the selection.
  std::vector<StoredRank> Stored() const;

  // Completes the files with the manifest. Called once, after the last data.
  absl::Status Close(const capture::Manifest& manifest) { return writer_->Close(manifest); }
  const std::string& folder() const { return writer_->folder(); }

 private:
  struct Rank {
    uint64_t incarnation = 0;       // of its newest segment; 0 until the first batch
    std::string early_definitions;  // of gaps that arrived before the first batch
    bool trace_failed = false;
    uint64_t trace_bytes = 0;
    HostInterval profile_window;
    std::string no_profile;
    // Losses reported by gaps and the capture's end, and losses of this aggregator.
    std::vector<capture::Loss> losses;
  };

  absl::StatusOr<capture::FileEnd> StoreBatch(size_t rank, const v1::Batch& batch);
  absl::StatusOr<capture::FileEnd> StoreGap(size_t rank, const v1::Gap& gap);
  absl::Status StoreTracePiece(size_t rank, const v1::TraceFile& piece);
  absl::Status StoreProfilePiece(size_t rank, const v1::TraceFile& piece);
  // Returns the first error. Without its entry in the journal, a message counts as not stored.
  absl::Status Journaled(absl::Status stored, const absl::Status& noted);
  void RestoreBatch(size_t rank, const v1::Batch& batch, const std::string& file);
  void RestorePiece(size_t rank, const v1::TraceFile& piece, uint64_t bytes);
  void AddLosses(size_t rank, const google::protobuf::RepeatedPtrField<v1::Loss>& losses);
  // Appends to the rank's file.
  absl::StatusOr<capture::FileEnd> Write(size_t rank, uint64_t incarnation, uint64_t rows,
                                         const std::string& blocks);
  capture::TraceFileOwner OwnerOf(size_t rank, capture::TraceFileKind kind) const;
  void LoseTrace(size_t rank, const std::string& reason);
  // Counts discarded rows as lost. `kind` is columns::Kind, 0 for none.
  void Discard(size_t rank, const std::string& stage, uint32_t kind, uint64_t rows,
               const std::string& reason);

  const std::unique_ptr<capture::RecordsWriter> writer_;
  const std::unique_ptr<CaptureJournal> journal_;
  const std::vector<RankId> rank_ids_;  // in the order of ranks_
  losses::LossTable& lost_;
  CaptureSize size_;  // thread-safe

  mutable Mutex mutex_;
  std::vector<Rank> ranks_ ABSL_GUARDED_BY(mutex_);  // never resized
  uint64_t records_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string error_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_CAPTURES_CAPTURE_DATA_H_
