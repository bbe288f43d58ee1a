#include "aggregator/ingest/hub.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "aggregator/captures/capture_journal.h"
#include "base/files/read_files.h"
#include "base/rpc/status_macros.h"
#include "capture/store/records_manifest.h"

namespace lockstep::aggregator {

Hub::Hub(const HubOptions& options, const JobClock& clock)
    : log_(options.captures.log),
      daemons_(clock, options.credits, options.captures.log),
      captures_(options.captures, clock, daemons_, clocks_),
      acks_(daemons_, [this] { captures_.Sync(); }) {}

Hub::~Hub() { Shutdown(); }

void Hub::Resume(const Captures::After& after) {
  for (const std::filesystem::directory_entry& entry : FolderEntries(captures_.folder())) {
    const std::string id = entry.path().filename().string();
    const std::string folder = entry.path().string();
    if (!capture::IsPlainFileName(id) || !CaptureJournal::Exists(folder)) continue;
    const absl::Status resumed = Resume(id, folder);
    if (!resumed.ok())
      log_(LogLevel::kError, "capture_not_restored", {{"capture", id}, {"reason", resumed.message()}});
  }
  captures_.RunRestored(after);
}

absl::Status Hub::Resume(const std::string& id, const std::string& folder) {
  if (std::filesystem::exists(absl::StrCat(folder, "/records/", capture::kManifestName))) {
    captures_.RestoreClosed(id);
    return absl::OkStatus();
  }
  LOCKSTEP_ASSIGN_OR_RETURN(const JournalContent content, CaptureJournal::Read(folder));
  for (const v1::JournalEntry& entry : content.entries) {
    if (entry.has_clock()) clocks_.Add(entry.clock().node_id(), entry.clock().samples());
    if (!entry.has_stored()) continue;
    const v1::JournalStored& stored = entry.stored();
    const auto sequence = daemons_.Sequence({stored.node_id(), stored.daemon_session()});
    MutexLock lock(&sequence->mutex);
    sequence->stored = std::max(sequence->stored, JournaledSequence(stored.message()));
    sequence->durable = sequence->stored;
    sequence->restored = true;
  }
  return captures_.Restore(id, content);
}

v1::Register Hub::Connect(const v1::DaemonHello& hello, std::shared_ptr<DaemonConnection> connection) {
  v1::Register reply =
      daemons_.Connect(hello, std::move(connection), captures_.RunningOnNode(hello.node_id()));
  if (!reply.refused().empty()) return reply;
  const DaemonKey daemon = {hello.node_id(), hello.session()};
  captures_.OnDaemonBack(daemon);
  if (steps_ != nullptr) {
    v1::FromAggregator follow;
    follow.mutable_follow_steps();
    daemons_.Send(daemon, follow);
  }
  return reply;
}

void Hub::Handle(const DaemonKey& key, const DaemonConnection* connection, const v1::FromDaemon& message) {
  if (!daemons_.IsConnected(key, connection)) return;
  if (message.has_ranks()) {
    daemons_.SetRanks(key, connection, message.ranks());
    return;
  }
  if (message.has_health()) {
    daemons_.SetHealth(key, connection, message.health());
    return;
  }
  if (message.has_progress()) {
    progress_.OnAnswer(key, message.progress());
    return;
  }
  if (message.has_steps()) {
    if (steps_ != nullptr) steps_->OnSteps(key, message.steps());
    return;
  }
  if (message.has_states()) {
    if (auto session = captures_.Find(message.states().capture())) session->OnStates(key, message.states());
    return;
  }
  if (message.has_clock()) {
    clocks_.Add(key.node_id, message.clock());
    captures_.OnClock(key.node_id, message.clock());
    return;
  }
  HandleData(key, message);
}

void Hub::Count(const std::function<void(MessageCounts&)>& add) {
  MutexLock lock(&mutex_);
  add(counts_);
}

void Hub::HandleData(const DaemonKey& key, const v1::FromDaemon& message) {
  if (message.has_batch()) {
    const v1::Batch& batch = message.batch();
    return Sequenced(key, batch.sequence(), batch.sequence(), batch.capture(), [&](CaptureSession& session) {
      if (absl::Status s = session.OnBatch(key, batch); !s.ok()) {
        return log_(LogLevel::kError, "batch_not_stored",
                    {{"capture", batch.capture()}, {"reason", s.message()}});
      }
      Count([&](MessageCounts& counts) {
        ++counts.batches;
        counts.records += batch.rows();
        counts.record_bytes += batch.blocks().size();
      });
    });
  }
  if (message.has_trace_file()) {
    const v1::TraceFile& piece = message.trace_file();
    return Sequenced(key, piece.sequence(), piece.sequence(), piece.capture(), [&](CaptureSession& session) {
      if (absl::Status s = session.OnTraceFile(key, piece); !s.ok()) {
        return log_(LogLevel::kError, "trace_file_not_stored",
                    {{"capture", piece.capture()}, {"reason", s.message()}});
      }
      Count([&](MessageCounts& counts) {
        ++counts.trace_pieces;
        counts.trace_bytes += piece.data().size();
      });
    });
  }
  if (message.has_gap()) {
    const v1::Gap& gap = message.gap();
    return Sequenced(key, gap.first_sequence(), gap.last_sequence(), gap.capture(),
                     [&](CaptureSession& session) {
                       session.OnGap(key, gap);
                       Count([](MessageCounts& counts) { ++counts.gaps; });
                     });
  }
  if (message.has_end()) {
    const v1::CaptureEnd& end = message.end();
    return Sequenced(key, end.sequence(), end.sequence(), end.capture(), [&](CaptureSession& session) {
      session.OnEnd(key, end);
      Count([](MessageCounts& counts) { ++counts.ends; });
    });
  }
}

void Hub::Sequenced(const DaemonKey& key, uint64_t first, uint64_t last, const std::string& capture,
                    const std::function<void(CaptureSession&)>& store) {
  acks_.Add(key, StoreSequenced(key, first, last, capture, store));
}

uint64_t Hub::StoreSequenced(const DaemonKey& key, uint64_t first, uint64_t last, const std::string& capture,
                             const std::function<void(CaptureSession&)>& store) {
  const std::shared_ptr<DaemonSequence> sequence = daemons_.Sequence(key);
  MutexLock in_order(&sequence->mutex);
  const uint64_t stored = sequence->stored;
  // The message was stored before a reconnect and sent again. A gap that begins among stored batches also
  // covers later ones.
  if (last <= stored || last < first) {
    Count([](MessageCounts& counts) { ++counts.duplicates; });
    return stored;
  }
  if (const auto session = captures_.Find(capture)) {
    if (first > stored + 1 && stored > 0 && !sequence->restored) {
      session->OnHole(key, first - stored - 1);
      Count([&](MessageCounts& counts) { counts.missing += first - stored - 1; });
    }
    store(*session);
  } else {
    bool is_first = false;
    Count([&](MessageCounts& counts) { is_first = counts.discarded++ == 0; });
    if (is_first)
      log_(LogLevel::kWarning, "batches_discarded",
           {{"capture", capture}, {"text", "the capture does not run here"}});
  }
  sequence->stored = last;
  sequence->restored = false;
  return last;
}

v1::StatusReply Hub::Status(const std::string& job, const Caller& caller) const {
  v1::StatusReply reply;
  *reply.mutable_version() = DaemonRegistry::Protocol();
  // Selects whole jobs, as a capture does, because a rank on some node may not know the scheduler's name for
  // its job.
  const std::set<JobKey> meant = daemons_.JobsNamed(job);
  daemons_.AddTo(reply, [&](const v1::Rank& rank) {
    return caller.MaySee({rank.job(), rank.uid()}) &&
           (job.empty() || meant.contains({rank.job(), rank.uid()}));
  });
  for (v1::DaemonStatus& daemon : *reply.mutable_daemons()) clocks_.Describe(daemon.node_id(), daemon);
  captures_.AddTo(reply, job, caller);
  return reply;
}

v1::ProgressReply Hub::Progress(const v1::ProgressRequest& request, const Caller& caller, Nanos at_most) {
  const std::string& job = request.job();
  // As in Status, the daemons send all jobs, of which whole jobs are selected here.
  v1::ProgressReply reply = progress_.Ask(request, at_most);
  const std::set<JobKey> meant = daemons_.JobsNamed(job);
  for (v1::NodeProgress& node : *reply.mutable_nodes()) {
    auto& processes = *node.mutable_processes();
    processes.erase(std::remove_if(processes.begin(), processes.end(),
                                   [&](const v1::ProcessProgress& process) {
                                     const v1::Rank& rank = process.rank();
                                     return !caller.MaySee({rank.job(), rank.uid()}) ||
                                            (!job.empty() && !meant.contains({rank.job(), rank.uid()}));
                                   }),
                    processes.end());
  }
  return reply;
}

MessageCounts Hub::counts() const {
  MutexLock lock(&mutex_);
  return counts_;
}

void Hub::Shutdown() {
  progress_.Stop();
  daemons_.RefuseNew();
  captures_.Shutdown();
  acks_.Stop();
  daemons_.CloseAll();
}

}  // namespace lockstep::aggregator
