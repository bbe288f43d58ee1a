#include "aggregator/captures/capture_journal.h"

#include <fcntl.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/util/delimited_message_util.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "aggregator/nodes/seen_rank.h"
#include "base/files/file_sink.h"
#include "base/rpc/status_macros.h"

namespace lockstep::aggregator {
namespace {

constexpr uint32_t kFormat = 1;

std::string PathOf(const std::string& folder) { return folder + "/journal"; }

// Returns the entry after its length.
std::string Framed(const v1::JournalEntry& entry) {
  std::string out;
  google::protobuf::io::StringOutputStream stream(&out);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.WriteVarint32(static_cast<uint32_t>(entry.ByteSizeLong()));
  entry.SerializeToCodedStream(&coded);
  coded.Trim();
  return out;
}

v1::JournalEntry BeginEntry(const v1::JournalBegin& begin) {
  v1::JournalEntry entry;
  *entry.mutable_begin() = begin;
  entry.mutable_begin()->set_format(kFormat);
  return entry;
}

uint64_t FileBytes(const std::string& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 ? static_cast<uint64_t>(status.st_size) : 0;
}

// Removes the entries whose data is not there.
void DropEntriesWithoutData(const std::string& folder, std::vector<v1::JournalEntry>& entries) {
  std::set<DaemonKey> broken;
  std::erase_if(entries, [&](const v1::JournalEntry& entry) {
    if (!entry.has_stored()) return false;
    const v1::JournalStored& stored = entry.stored();
    const DaemonKey daemon{stored.node_id(), stored.daemon_session()};
    if (!stored.file().empty() &&
        FileBytes(absl::StrCat(folder, "/records/", stored.file())) < stored.file_bytes())
      broken.insert(daemon);
    return broken.contains(daemon);
  });
}

}  // namespace

v1::JournalBegin MakeJournalBegin(const std::string& capture, const Selection& selection,
                                  const v1::TraceRequest& request, JobTime made_at) {
  v1::JournalBegin begin;
  begin.set_capture(capture);
  *begin.mutable_request() = request;
  begin.set_job(selection.job);
  begin.set_uid(selection.uid);
  begin.set_world_size(selection.world_size);
  begin.set_made_at_ns(made_at.ns());
  for (const SeenRank& seen : selection.ranks) {
    v1::JournalRank& rank = *begin.add_ranks();
    rank.set_node_id(seen.daemon.node_id);
    rank.set_daemon_session(seen.daemon.session);
    rank.set_host_name(seen.host_name);
    *rank.mutable_rank() = seen.rank;
  }
  for (const int32_t rank : selection.missing_ranks) begin.add_missing_ranks(rank);
  return begin;
}

Selection JournaledSelection(const v1::JournalBegin& begin) {
  Selection selection;
  selection.job = begin.job();
  selection.uid = begin.uid();
  selection.world_size = begin.world_size();
  for (const v1::JournalRank& rank : begin.ranks())
    selection.ranks.push_back({{rank.node_id(), rank.daemon_session()}, rank.host_name(), rank.rank()});
  selection.missing_ranks.assign(begin.missing_ranks().begin(), begin.missing_ranks().end());
  return selection;
}

const v1::ProcessKey& JournaledProcess(const v1::FromDaemon& message) {
  switch (message.message_case()) {
    case v1::FromDaemon::kBatch:
      return message.batch().process();
    case v1::FromDaemon::kGap:
      return message.gap().process();
    case v1::FromDaemon::kTraceFile:
      return message.trace_file().process();
    default:
      return message.end().process();
  }
}

uint64_t JournaledSequence(const v1::FromDaemon& message) {
  switch (message.message_case()) {
    case v1::FromDaemon::kBatch:
      return message.batch().sequence();
    case v1::FromDaemon::kGap:
      return message.gap().last_sequence();
    case v1::FromDaemon::kTraceFile:
      return message.trace_file().sequence();
    default:
      return message.end().sequence();
  }
}

bool CaptureJournal::Exists(const std::string& folder) { return ::access(PathOf(folder).c_str(), F_OK) == 0; }

absl::StatusOr<JournalContent> CaptureJournal::Read(const std::string& folder) {
  const std::string path = PathOf(folder);
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd.ok()) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
  google::protobuf::io::FileInputStream stream(fd.get());
  JournalContent content;
  bool clean_end = false;
  v1::JournalEntry entry;
  const auto next = [&] {
    entry.Clear();  // the parser adds to the message
    return google::protobuf::util::ParseDelimitedFromZeroCopyStream(&entry, &stream, &clean_end);
  };
  if (!next() || !entry.has_begin())
    return absl::DataLossError(absl::StrCat(path, " does not begin with a capture"));
  if (entry.begin().format() != kFormat) {
    return absl::DataLossError(absl::StrCat(path, " has format ", entry.begin().format(),
                                            ", and this release reads format ", kFormat));
  }
  content.begin = entry.begin();
  // An entry without content is a piece of the file that never reached the disk.
  while (next() && !entry.has_begin() && entry.entry_case() != v1::JournalEntry::ENTRY_NOT_SET)
    content.entries.push_back(entry);
  DropEntriesWithoutData(folder, content.entries);
  return content;
}

absl::StatusOr<std::unique_ptr<CaptureJournal>> CaptureJournal::Create(const std::string& folder,
                                                                       const JournalContent& content) {
  const std::string path = PathOf(folder);
  LOCKSTEP_ASSIGN_OR_RETURN(std::unique_ptr<ByteSink> sink, OpenAtomicFile(path));
  LOCKSTEP_RETURN_IF_ERROR(sink->Append(Framed(BeginEntry(content.begin))));
  for (const v1::JournalEntry& entry : content.entries) LOCKSTEP_RETURN_IF_ERROR(sink->Append(Framed(entry)));
  LOCKSTEP_RETURN_IF_ERROR(sink->Finish());
  Fd fd(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.ok()) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  return std::unique_ptr<CaptureJournal>(new CaptureJournal(std::move(fd), path, FileBytes(path)));
}

void CaptureJournal::Remove(const std::string& folder) { std::remove(PathOf(folder).c_str()); }

std::unique_ptr<CaptureJournal> CaptureJournal::None() {
  return std::unique_ptr<CaptureJournal>(new CaptureJournal(Fd(), "", 0));
}

absl::Status CaptureJournal::AddStored(const DaemonKey& from, const capture::FileEnd& end,
                                       uint64_t piece_bytes, v1::FromDaemon message) {
  v1::JournalEntry entry;
  v1::JournalStored& stored = *entry.mutable_stored();
  stored.set_node_id(from.node_id);
  stored.set_daemon_session(from.session);
  stored.set_file(end.name);
  stored.set_file_bytes(end.bytes);
  stored.set_piece_bytes(piece_bytes);
  *stored.mutable_message() = std::move(message);
  return Append(entry);
}

absl::Status CaptureJournal::AddStart(v1::JournalStart start) {
  v1::JournalEntry entry;
  *entry.mutable_start() = std::move(start);
  return Append(entry);
}

absl::Status CaptureJournal::AddBatch(const DaemonKey& from, const v1::Batch& batch,
                                      const capture::FileEnd& end) {
  v1::FromDaemon message;
  v1::Batch& stored = *message.mutable_batch();
  stored.set_sequence(batch.sequence());
  *stored.mutable_process() = batch.process();
  stored.set_incarnation(batch.incarnation());
  stored.set_rows(batch.rows());
  return AddStored(from, end, 0, std::move(message));
}

absl::Status CaptureJournal::AddGap(const DaemonKey& from, const v1::Gap& gap,
                                    const absl::StatusOr<capture::FileEnd>& end) {
  v1::FromDaemon message;
  *message.mutable_gap() = gap;
  // Definitions that no file has yet come with the next batch.
  if (!end.ok() || !end->name.empty()) message.mutable_gap()->clear_definitions();
  return AddStored(from, end.value_or(capture::FileEnd()), 0, std::move(message));
}

absl::Status CaptureJournal::AddPiece(const DaemonKey& from, const v1::TraceFile& piece,
                                      const absl::Status& stored) {
  v1::FromDaemon message;
  v1::TraceFile& file = *message.mutable_trace_file();
  file = piece;
  file.clear_data();
  if (!stored.ok()) file.set_given_up(std::string(stored.message()));
  return AddStored(from, {}, piece.data().size(), std::move(message));
}

absl::Status CaptureJournal::AddEnd(const DaemonKey& from, const v1::CaptureEnd& end) {
  v1::FromDaemon message;
  *message.mutable_end() = end;
  return AddStored(from, {}, 0, std::move(message));
}

absl::Status CaptureJournal::AddHole(const std::string& node_id, uint64_t batches) {
  v1::JournalEntry entry;
  entry.mutable_hole()->set_node_id(node_id);
  entry.mutable_hole()->set_batches(batches);
  return Append(entry);
}

absl::Status CaptureJournal::AddClock(const std::string& node_id, const v1::ClockSamples& samples) {
  v1::JournalEntry entry;
  entry.mutable_clock()->set_node_id(node_id);
  *entry.mutable_clock()->mutable_samples() = samples;
  return Append(entry);
}

absl::Status CaptureJournal::AddFailure(const std::string& text) {
  v1::JournalEntry entry;
  entry.mutable_failure()->set_text(text);
  return Append(entry);
}

absl::Status CaptureJournal::Append(const v1::JournalEntry& entry) {
  if (!fd_.ok()) return absl::OkStatus();
  const std::string framed = Framed(entry);
  std::string_view bytes = framed;
  MutexLock lock(&mutex_);
  unsynced_ = true;
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      absl::Status failed = absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path_));
      // Entries behind a torn one could not be read.
      if (::ftruncate(fd_.get(), static_cast<off_t>(bytes_)) != 0) failed.Update(absl::DataLossError(path_));
      return failed;
    }
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  bytes_ += framed.size();
  return absl::OkStatus();
}

absl::Status CaptureJournal::Sync() {
  {
    MutexLock lock(&mutex_);
    if (!std::exchange(unsynced_, false) || !fd_.ok()) return absl::OkStatus();
  }
  if (::fdatasync(fd_.get()) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot sync ", path_));
}

}  // namespace lockstep::aggregator
