// What daemons tell a capture session: any thread, one message at a time per daemon.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "aggregator/captures/capture_session.h"
#include "capture/store/records_blocks.h"
#include "wire/columns/schema.h"

namespace lockstep::ingest {
namespace {

// Definitions that wait for a process's first batch; more than a hostile daemon gets for nothing.
constexpr size_t kMostEarlyBytes = 16u << 20;

bool Same(const v1::ProcessKey& a, const v1::ProcessKey& b) {
  return a.pid() == b.pid() && a.start_ticks() == b.start_ticks();
}

// Empty where there is none, or none that is known.
std::string KindText(uint32_t kind) {
  return kind > 0 && kind < columns::kKinds ? columns::KindName(static_cast<columns::Kind>(kind)) : "";
}

}  // namespace

void CaptureSession::AppendLosses(const google::protobuf::RepeatedPtrField<v1::Loss>& losses,
                                  Process& process) {
  for (const v1::Loss& loss : losses) {
    process.losses.push_back({loss.stage(), KindText(loss.kind()), loss.records(), loss.reason(),
                              HostTime(loss.from_ns()), HostTime(loss.to_ns())});
    env_.lost(loss.stage(), loss.kind(), loss.records());
  }
}

size_t CaptureSession::Find(const DaemonKey& from, const v1::ProcessKey& process) const {
  // The node, not the daemon: a daemon that was restarted goes on with the processes of the one before it.
  for (size_t i = 0; i < processes_.size(); ++i) {
    const Process& p = processes_[i];
    if (p.seen.daemon.node_id == from.node_id && Same(p.seen.rank.process(), process)) return i;
  }
  return processes_.size();
}

bool CaptureSession::Holds(const std::string& node_id, const v1::ProcessKey& process) const {
  std::lock_guard<std::mutex> lock(mutex_);
  return phase_ != Phase::kClosed && Find({node_id, 0}, process) < processes_.size();
}

void CaptureSession::SetState(Process& process, v1::RankState::State state, const std::string& text) {
  process.state.set_state(state);
  process.state.set_text(text);
  if (state == v1::RankState::GONE || state == v1::RankState::FAILED) process.gone_since = MonoNow();
  Report(process);
}

void CaptureSession::Report(const Process& process) {
  v1::TraceEvent event;
  v1::RankProgress& rank = *event.mutable_rank();
  rank.set_rank(process.seen.rank.rank());
  rank.set_host_name(process.seen.host_name);
  *rank.mutable_state() = process.state;
  uint64_t lost = 0;
  for (const store::Loss& loss : process.losses) lost += loss.records;
  rank.set_lost(lost);
  events_.push_back(std::move(event));
  changed_.notify_all();
}

void CaptureSession::OnStates(const DaemonKey& from, const v1::RankStates& states) {
  std::lock_guard<std::mutex> lock(mutex_);
  last_news_ = MonoNow();
  for (const v1::RankState& state : states.states()) {
    const size_t i = Find(from, state.process());
    if (i == processes_.size() || phase_ == Phase::kClosed) continue;
    Process& process = processes_[i];
    if (process.ended) continue;
    const v1::RankState::State before = process.state.state();
    process.state = state;
    if (state.went_over() && process.held.empty()) NoteGoneOver(process, state);
    if (state.state() == v1::RankState::WAITING) process.step_told = env_.clock->Now();
    switch (state.state()) {
      case v1::RankState::ARMED:
      case v1::RankState::WAITING:
      case v1::RankState::CAPTURING:
        // Too late to be started with the others: the session has given it up.
        if (phase_ == Phase::kArming) process.armed = true;
        break;
      case v1::RankState::DONE:
        continue;  // told with its losses, when its last record is here
      case v1::RankState::FAILED:
      case v1::RankState::GONE:
        process.gone_since = MonoNow();
        break;
      default:
        break;
    }
    if (state.state() != before) Report(process);
  }
  changed_.notify_all();
}

void CaptureSession::NoteGoneOver(Process& process, const v1::RankState& state) {
  if (!process.kineto_if_held || phase_ != Phase::kArming) return;
  process.kineto = true;
  process.held = state.holder().empty() ? "another tool" : state.holder();
  Report(process);
}

absl::Status CaptureSession::OnBatch(const DaemonKey& from, const v1::Batch& batch) {
  size_t i = 0;
  std::string early;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    last_news_ = MonoNow();
    i = Find(from, batch.process());
    if (i == processes_.size())
      return absl::NotFoundError("the batch is of a process that is not in this capture");
    if (phase_ == Phase::kClosed)
      return absl::FailedPreconditionError("the batch came after the capture was closed");
    processes_[i].incarnation = batch.incarnation();
    early.swap(processes_[i].early_definitions);
    records_ += batch.rows();
  }
  if (!early.empty()) {
    if (absl::Status s = Write(i, batch.incarnation(), 0, early); !s.ok()) return s;
  }
  return Write(i, batch.incarnation(), batch.rows(), batch.blocks());
}

absl::Status CaptureSession::Write(size_t process, uint64_t incarnation, uint64_t rows,
                                   const std::string& blocks) {
  if (blocks.empty()) return absl::OkStatus();
  std::string failed;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    failed = write_error_;
  }
  absl::Status s = absl::DataLossError(failed);
  if (failed.empty()) {
    const RankId rank(processes_[process].seen.rank.rank());
    s = writer_->Append({static_cast<uint32_t>(process), incarnation}, rank, blocks);
  }
  if (s.ok()) return s;
  if (s.code() == absl::StatusCode::kInvalidArgument) {
    // What the daemon says it held: nobody can count what cannot be read.
    Discard(process, "wire", 0, rows, std::string(s.message()));
    return s;
  }
  const store::RowCounts lost = store::CountRows(store::WalkBlocks(blocks).blocks);
  for (uint32_t kind = 0; kind < lost.size(); ++kind) {
    if (lost[kind] == 0 || kind == static_cast<uint32_t>(columns::Kind::kString)) continue;
    Discard(process, "store", kind, lost[kind], std::string(s.message()));
  }
  std::lock_guard<std::mutex> lock(mutex_);
  if (write_error_.empty()) write_error_ = std::string(s.message());
  stopping_ = true;
  changed_.notify_all();
  return s;
}

void CaptureSession::Discard(size_t process, const std::string& stage, uint32_t kind, uint64_t rows,
                             const std::string& reason) {
  std::lock_guard<std::mutex> lock(mutex_);
  env_.lost(stage, kind, rows);
  std::vector<store::Loss>& losses = processes_[process].losses;
  const std::string name = KindText(kind);
  // One entry per reason, however often it happens.
  for (store::Loss& loss : losses) {
    if (loss.stage == stage && loss.kind == name && loss.reason == reason) {
      loss.records += rows;
      return;
    }
  }
  losses.push_back({stage, name, rows, reason, {}, {}});
}

void CaptureSession::LoseTrace(size_t process, const std::string& reason) {
  writer_->DropTrace({.process = static_cast<uint32_t>(process)});
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (std::exchange(processes_[process].trace_failed, true)) return;
  }
  // What the file held nobody can count: it is one, of no kind.
  Discard(process, "store", 0, 1, reason);
}

absl::Status CaptureSession::OnTraceFile(const DaemonKey& from, const v1::TraceFile& piece) {
  size_t i = 0;
  bool failed = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    last_news_ = MonoNow();
    i = Find(from, piece.process());
    const bool profile = piece.kind() == v1::TraceFile::PYTHON_PROFILE;
    const bool asked = (request_.activities() & v1::RECORDED_ACTIVITY_PYTHON_PROFILE) != 0;
    if (i == processes_.size() || (profile ? !asked : !processes_[i].kineto))
      return absl::NotFoundError(absl::StrCat("the ", profile ? "profile" : "trace file",
                                              " is of a process of which none was asked for here"));
    if (phase_ == Phase::kClosed)
      return absl::FailedPreconditionError("the trace file came after the capture was closed");
  }
  if (piece.kind() == v1::TraceFile::PYTHON_PROFILE) return OnPythonProfile(i, piece);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    failed = processes_[i].trace_failed;
    processes_[i].trace_bytes += piece.data().size();
  }
  if (failed) return absl::OkStatus();
  const store::TraceFileOwner owner{RankId(processes_[i].seen.rank.rank()), static_cast<uint32_t>(i)};
  if (!piece.given_up().empty()) {
    // The daemon tells the loss with the process's end.
    writer_->DropTrace(owner);
    std::lock_guard<std::mutex> lock(mutex_);
    processes_[i].trace_failed = true;
    return absl::OkStatus();
  }
  absl::Status s = writer_->AppendTrace(owner, piece.offset(), piece.data());
  if (s.ok() && piece.last()) s = writer_->FinishTrace(owner);
  if (!s.ok()) LoseTrace(i, std::string(s.message()));
  return s;
}

absl::Status CaptureSession::OnPythonProfile(size_t process, const v1::TraceFile& piece) {
  const store::TraceFileOwner owner{RankId(processes_[process].seen.rank.rank()),
                                    static_cast<uint32_t>(process), store::TraceFileKind::kPythonProfile};
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!processes_[process].no_profile.empty()) return absl::OkStatus();
    processes_[process].profile_window = {HostTime(piece.begin_host_ns()), HostTime(piece.end_host_ns())};
  }
  absl::Status s;
  std::string why = piece.given_up();
  if (why.empty()) {
    s = writer_->AppendTrace(owner, piece.offset(), piece.data());
    if (s.ok() && piece.last()) s = writer_->FinishTrace(owner);
    why = std::string(s.message());
  }
  if (why.empty()) return s;
  writer_->DropTrace(owner);
  std::lock_guard<std::mutex> lock(mutex_);
  processes_[process].no_profile = why;
  return s;
}

void CaptureSession::OnGap(const DaemonKey& from, const v1::Gap& gap) {
  size_t i = 0;
  uint64_t incarnation = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    last_news_ = MonoNow();
    i = Find(from, gap.process());
    if (i == processes_.size() || phase_ == Phase::kClosed) return;
    Process& process = processes_[i];
    AppendLosses(gap.losses(), process);
    incarnation = process.incarnation;
    if (incarnation == 0 && process.early_definitions.size() + gap.definitions().size() <= kMostEarlyBytes) {
      process.early_definitions += gap.definitions();
    }
  }
  // A definition that cannot be stored costs names, which the reader of records/ counts.
  if (incarnation != 0) Write(i, incarnation, 0, gap.definitions()).IgnoreError();
}

void CaptureSession::OnEnd(const DaemonKey& from, const v1::CaptureEnd& end) {
  std::lock_guard<std::mutex> lock(mutex_);
  last_news_ = MonoNow();
  const size_t i = Find(from, end.process());
  if (i == processes_.size() || phase_ == Phase::kClosed) return;
  Process& process = processes_[i];
  process.ended = true;
  process.window = {HostTime(end.t0_host_ns()), HostTime(end.t1_host_ns())};
  AppendLosses(end.losses(), process);
  if (process.kineto) {
    process.state.set_trace_bytes(process.trace_bytes);
    // Done, and nothing is here.
    process.trace_failed =
        process.trace_failed ||
        writer_->Trace(static_cast<uint32_t>(i), store::TraceFileKind::kKineto).name.empty();
  }
  const v1::RankState::State state = process.state.state();
  const bool told = state == v1::RankState::FAILED || state == v1::RankState::GONE;
  if (!told) process.state.set_state(v1::RankState::DONE);
  // Who is known to be gone is told again only with what its end has to say.
  if (!told || !process.losses.empty()) Report(process);
  changed_.notify_all();
}

void CaptureSession::OnHole(const DaemonKey& from, uint64_t batches) {
  std::lock_guard<std::mutex> lock(mutex_);
  holes_ += batches;
  for (size_t i = 0; i < processes_.size(); ++i) {
    if (processes_[i].seen.daemon.node_id != from.node_id) continue;
    processes_[i].losses.push_back(
        {"wire",
         "",
         0,
         absl::StrCat(batches, " batches of the node never came; how many records they held is not known"),
         {},
         {}});
    return;
  }
}

void CaptureSession::OnDaemonBack(const DaemonKey& daemon) {
  std::vector<v1::FromAggregator> messages;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    last_news_ = MonoNow();
    const auto it = undelivered_.find(daemon);
    if (it == undelivered_.end()) return;
    messages = std::move(it->second);
    undelivered_.erase(it);
  }
  for (const v1::FromAggregator& message : messages) SendDown(daemon, message);
}

}  // namespace lockstep::ingest
