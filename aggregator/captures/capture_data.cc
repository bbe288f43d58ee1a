#include "aggregator/captures/capture_data.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "capture/store/records_blocks.h"
#include "wire/columns/schema.h"

namespace lockstep::aggregator {
namespace {

// Limit of definitions that wait for a process's first batch, so that a hostile daemon cannot exhaust memory.
constexpr size_t kMostEarlyBytes = 16u << 20;

// Returns an empty string if the kind is 0 or unknown.
std::string KindText(uint32_t kind) {
  return kind > 0 && kind < columns::kKinds ? columns::KindName(static_cast<columns::Kind>(kind)) : "";
}

std::vector<RankId> RankIds(const Selection& selection) {
  std::vector<RankId> ids;
  for (const SeenRank& seen : selection.ranks) ids.emplace_back(seen.rank.rank());
  return ids;
}

}  // namespace

CaptureData::CaptureData(std::unique_ptr<capture::RecordsWriter> writer,
                         std::unique_ptr<CaptureJournal> journal, const Selection& selection,
                         const StoreLimits& limits, losses::LossTable& lost)
    : writer_(std::move(writer)),
      journal_(std::move(journal)),
      rank_ids_(RankIds(selection)),
      lost_(lost),
      size_(limits),
      ranks_(selection.ranks.size()) {
  size_.Restore(writer_->bytes(), 0);
}

absl::Status CaptureData::Journaled(absl::Status stored, const absl::Status& noted) {
  if (noted.ok()) return stored;
  SetError(std::string(noted.message()));
  return absl::DataLossError(noted.message());
}

absl::Status CaptureData::AddBatch(const DaemonKey& from, size_t i, const v1::Batch& batch) {
  const absl::StatusOr<capture::FileEnd> end = StoreBatch(i, batch);
  return Journaled(end.status(), journal_->AddBatch(from, batch, end.value_or(capture::FileEnd())));
}

absl::Status CaptureData::AddGap(const DaemonKey& from, size_t i, const v1::Gap& gap) {
  const absl::StatusOr<capture::FileEnd> end = StoreGap(i, gap);
  return Journaled(end.status(), journal_->AddGap(from, gap, end));
}

absl::Status CaptureData::AddPiece(const DaemonKey& from, size_t i, const v1::TraceFile& piece) {
  const bool profile = piece.kind() == v1::TraceFile::PYTHON_PROFILE;
  absl::Status stored = profile ? StoreProfilePiece(i, piece) : StoreTracePiece(i, piece);
  const absl::Status noted = journal_->AddPiece(from, piece, stored);
  return Journaled(std::move(stored), noted);
}

absl::Status CaptureData::AddEnd(const DaemonKey& from, size_t i, const v1::CaptureEnd& end) {
  AddLosses(i, end.losses());
  return Journaled(absl::OkStatus(), journal_->AddEnd(from, end));
}

absl::Status CaptureData::AddHole(const std::string& node_id, size_t i, uint64_t batches) {
  RestoreHole(i, batches);
  return Journaled(absl::OkStatus(), journal_->AddHole(node_id, batches));
}

absl::Status CaptureData::Sync() {
  absl::Status synced = writer_->Sync();
  // The journal must not name what is not on disk.
  if (synced.ok()) synced = journal_->Sync();
  if (!synced.ok()) SetError(std::string(synced.message()));
  return synced;
}

absl::StatusOr<capture::FileEnd> CaptureData::StoreBatch(size_t i, const v1::Batch& batch) {
  std::string early;
  {
    MutexLock lock(&mutex_);
    ranks_[i].incarnation = batch.incarnation();
    early.swap(ranks_[i].early_definitions);
    records_ += batch.rows();
  }
  if (!early.empty()) {
    if (auto end = Write(i, batch.incarnation(), 0, early); !end.ok()) return end;
  }
  return Write(i, batch.incarnation(), batch.rows(), batch.blocks());
}

absl::StatusOr<capture::FileEnd> CaptureData::StoreGap(size_t i, const v1::Gap& gap) {
  AddLosses(i, gap.losses());
  uint64_t incarnation = 0;
  {
    MutexLock lock(&mutex_);
    Rank& rank = ranks_[i];
    incarnation = rank.incarnation;
    if (incarnation == 0 && rank.early_definitions.size() + gap.definitions().size() <= kMostEarlyBytes)
      rank.early_definitions += gap.definitions();
  }
  if (incarnation == 0) return capture::FileEnd();
  return Write(i, incarnation, 0, gap.definitions());
}

absl::StatusOr<capture::FileEnd> CaptureData::Write(size_t i, uint64_t incarnation, uint64_t rows,
                                                    const std::string& blocks) {
  if (blocks.empty()) return capture::FileEnd();
  const std::string failed = error();
  const capture::RowCounts counts = capture::CountRows(capture::WalkBlocks(blocks).blocks);
  const absl::Status room =
      failed.empty() ? size_.Take(blocks.size(), capture::TotalRows(counts)) : absl::DataLossError(failed);
  absl::StatusOr<capture::FileEnd> end = capture::FileEnd();
  if (!room.ok()) end = room;
  if (room.ok()) end = writer_->Append({static_cast<uint32_t>(i), incarnation}, rank_ids_[i], blocks);
  if (end.ok()) return end;
  const absl::Status& s = end.status();
  if (s.code() == absl::StatusCode::kInvalidArgument) {
    // The block cannot be read, so the daemon's row count is used.
    Discard(i, "wire", 0, rows, std::string(s.message()));
    return end;
  }
  for (uint32_t kind = 0; kind < counts.size(); ++kind) {
    if (counts[kind] == 0 || kind == static_cast<uint32_t>(columns::Kind::kString)) continue;
    Discard(i, "store", kind, counts[kind], std::string(s.message()));
  }
  SetError(std::string(s.message()));
  // The disk may accept it, although it did not accept the records.
  journal_->AddFailure(std::string(s.message())).IgnoreError();
  return end;
}

void CaptureData::SetError(const std::string& text) {
  MutexLock lock(&mutex_);
  if (error_.empty()) error_ = text;
}

void CaptureData::AddLosses(size_t i, const google::protobuf::RepeatedPtrField<v1::Loss>& losses) {
  MutexLock lock(&mutex_);
  for (const v1::Loss& loss : losses) {
    const uint64_t records = std::min<uint64_t>(loss.records(), capture::kMostLostRecords);
    ranks_[i].losses.push_back({loss.stage(), KindText(loss.kind()), records, loss.reason(),
                                HostTime(loss.from_ns()), HostTime(loss.to_ns())});
    lost_.Add(loss.stage(), loss.kind(), records);
  }
}

void CaptureData::Discard(size_t i, const std::string& stage, uint32_t kind, uint64_t rows,
                          const std::string& reason) {
  MutexLock lock(&mutex_);
  lost_.Add(stage, kind, rows);
  std::vector<capture::Loss>& losses = ranks_[i].losses;
  const std::string name = KindText(kind);
  // One entry per reason, however often it occurs.
  for (capture::Loss& loss : losses) {
    if (loss.stage == stage && loss.kind == name && loss.reason == reason) {
      loss.records += rows;
      return;
    }
  }
  losses.push_back({stage, name, rows, reason, {}, {}});
}

capture::TraceFileOwner CaptureData::OwnerOf(size_t i, capture::TraceFileKind kind) const {
  return {rank_ids_[i], static_cast<uint32_t>(i), kind};
}

absl::Status CaptureData::StoreTracePiece(size_t i, const v1::TraceFile& piece) {
  const capture::TraceFileOwner owner = OwnerOf(i, capture::TraceFileKind::kKineto);
  {
    MutexLock lock(&mutex_);
    ranks_[i].trace_bytes += piece.data().size();
    if (ranks_[i].trace_failed) return absl::OkStatus();
  }
  if (!piece.given_up().empty()) {
    // The daemon reports this loss with the process's end.
    writer_->DropTrace(owner);
    MutexLock lock(&mutex_);
    ranks_[i].trace_failed = true;
    return absl::OkStatus();
  }
  absl::Status s = size_.Take(piece.data().size(), 0);
  if (s.ok()) s = writer_->AppendTrace(owner, piece.offset(), piece.data());
  if (s.ok() && piece.last()) s = writer_->FinishTrace(owner);
  if (!s.ok()) LoseTrace(i, std::string(s.message()));
  return s;
}

void CaptureData::LoseTrace(size_t i, const std::string& reason) {
  writer_->DropTrace({.process = static_cast<uint32_t>(i)});
  {
    MutexLock lock(&mutex_);
    if (std::exchange(ranks_[i].trace_failed, true)) return;
  }
  // The number of records in the file is unknown, so the loss counts as one record without a kind.
  Discard(i, "store", 0, 1, reason);
}

absl::Status CaptureData::StoreProfilePiece(size_t i, const v1::TraceFile& piece) {
  const capture::TraceFileOwner owner = OwnerOf(i, capture::TraceFileKind::kPythonProfile);
  {
    MutexLock lock(&mutex_);
    if (!ranks_[i].no_profile.empty()) return absl::OkStatus();
    ranks_[i].profile_window = {HostTime(piece.begin_host_ns()), HostTime(piece.end_host_ns())};
  }
  absl::Status s;
  std::string why = piece.given_up();
  if (why.empty()) {
    s = size_.Take(piece.data().size(), 0);
    if (s.ok()) s = writer_->AppendTrace(owner, piece.offset(), piece.data());
    if (s.ok() && piece.last()) s = writer_->FinishTrace(owner);
    why = std::string(s.message());
  }
  if (why.empty()) return s;
  writer_->DropTrace(owner);
  MutexLock lock(&mutex_);
  ranks_[i].no_profile = why;
  return s;
}

// ---- After a restart

void CaptureData::Restore(size_t i, const v1::JournalStored& stored) {
  const v1::FromDaemon& message = stored.message();
  switch (message.message_case()) {
    case v1::FromDaemon::kBatch:
      return RestoreBatch(i, message.batch(), stored.file());
    case v1::FromDaemon::kGap: {
      AddLosses(i, message.gap().losses());
      MutexLock lock(&mutex_);
      // The journal has the definitions that no file has.
      ranks_[i].early_definitions += message.gap().definitions();
      return;
    }
    case v1::FromDaemon::kTraceFile:
      return RestorePiece(i, message.trace_file(), stored.piece_bytes());
    case v1::FromDaemon::kEnd:
      return AddLosses(i, message.end().losses());
    default:
      return;
  }
}

void CaptureData::RestoreBatch(size_t i, const v1::Batch& batch, const std::string& file) {
  {
    MutexLock lock(&mutex_);
    ranks_[i].incarnation = batch.incarnation();
    if (!file.empty()) ranks_[i].early_definitions.clear();
    records_ += batch.rows();
  }
  size_.Restore(0, batch.rows());
  if (file.empty() && batch.rows() > 0)
    Discard(i, "store", 0, batch.rows(), "a batch could not be stored; the aggregator was restarted since");
}

void CaptureData::RestorePiece(size_t i, const v1::TraceFile& piece, uint64_t bytes) {
  size_.Restore(bytes, 0);
  MutexLock lock(&mutex_);
  Rank& rank = ranks_[i];
  if (piece.kind() == v1::TraceFile::PYTHON_PROFILE) {
    rank.profile_window = {HostTime(piece.begin_host_ns()), HostTime(piece.end_host_ns())};
    if (!piece.given_up().empty()) rank.no_profile = piece.given_up();
    return;
  }
  rank.trace_bytes += bytes;
  if (!piece.given_up().empty()) rank.trace_failed = true;
}

void CaptureData::RestoreHole(size_t i, uint64_t batches) {
  MutexLock lock(&mutex_);
  ranks_[i].losses.push_back(
      {"wire",
       "",
       0,
       absl::StrCat(batches, " batches of the node never arrived; the number of their records is not known"),
       {},
       {}});
}

// ---- Results

uint64_t CaptureData::EndTrace(size_t i) {
  const bool missing = writer_->Trace(static_cast<uint32_t>(i), capture::TraceFileKind::kKineto).name.empty();
  MutexLock lock(&mutex_);
  Rank& rank = ranks_[i];
  // The process is done, but its trace file is missing.
  rank.trace_failed = rank.trace_failed || missing;
  return rank.trace_bytes;
}

uint64_t CaptureData::records() const {
  MutexLock lock(&mutex_);
  return records_;
}

bool CaptureData::HasLosses(size_t i) const {
  MutexLock lock(&mutex_);
  return !ranks_[i].losses.empty();
}

uint64_t CaptureData::LostRecords(size_t i) const {
  MutexLock lock(&mutex_);
  uint64_t lost = 0;
  for (const capture::Loss& loss : ranks_[i].losses) lost += loss.records;
  return lost;
}

std::string CaptureData::error() const {
  MutexLock lock(&mutex_);
  return error_;
}

std::vector<StoredRank> CaptureData::Stored() const {
  MutexLock lock(&mutex_);
  std::vector<StoredRank> stored;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    const auto process = static_cast<uint32_t>(i);
    const Rank& rank = ranks_[i];
    const capture::ManifestTrace profile = writer_->Trace(process, capture::TraceFileKind::kPythonProfile);
    StoredRank& out = stored.emplace_back();
    out.files = writer_->Files(process);
    out.trace = writer_->Trace(process, capture::TraceFileKind::kKineto);
    if (!profile.name.empty()) out.profile = {profile.name, profile.bytes, rank.profile_window};
    out.no_profile = rank.no_profile;
    out.trace_failed = rank.trace_failed;
    out.losses = rank.losses;
  }
  return stored;
}

}  // namespace lockstep::aggregator
