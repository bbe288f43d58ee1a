#include "daemon/captures/log_capture_path.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>

#include "daemon/captures/log_records.h"
#include "daemon/drain/batcher.h"
#include "daemon/drain/losses.h"

namespace lockstep::daemon {
namespace {

ring::State StateOf(uint64_t capture, ring::ClientState state) {
  ring::State message{};
  message.capture = capture;
  message.state = state;
  return message;
}

void SetText(ring::State& state, const char* text) {
  std::snprintf(state.text, sizeof state.text, "%s", text);
}

}  // namespace

bool LogCapturePath::Choose(const ProcessId& process, const std::string&, uint32_t) {
  if (const std::shared_ptr<DaemonSegment> segment = clients_.SegmentOf(process)) return segment->HasLog();
  const DepartedRank* gone = departed_.Find(process);
  return gone != nullptr && !gone->log.operations.empty();
}

bool LogCapturePath::Send(const ProcessId& process, const ring::Arm& message) {
  const ring::State armed = StateOf(message.capture, ring::ClientState::kArmed);
  loop_.Post([this, process, armed] { captures_.OnClientState(process, armed); });
  return true;
}

bool LogCapturePath::Send(const ProcessId& process, const ring::Start& message) {
  if (!targets_.contains(process)) return false;
  // A turn of the loop for each process, because a full log takes some milliseconds.
  loop_.Post([this, process, message] {
    if (targets_.contains(process)) captures_.OnClientState(process, Record(process, message));
  });
  return true;
}

// The process records nothing that could be stopped.
bool LogCapturePath::Send(const ProcessId&, const ring::Stop&) { return true; }

LogCapturePath::ProcessLog LogCapturePath::Read(const ProcessId& process, HostTime since) const {
  if (const std::shared_ptr<DaemonSegment> segment = clients_.SegmentOf(process))
    return {segment->Log(since), std::nullopt};
  const DepartedRank* gone = departed_.Find(process);
  return gone == nullptr ? ProcessLog() : ProcessLog{gone->log, gone->at};
}

ring::State LogCapturePath::Record(const ProcessId& process, const ring::Start& start) {
  Target& target = targets_.at(process);
  target.batches.clear();  // a start of an aborted capture may have been waiting
  HostInterval window = {std::max(HostTime(start.t0_realtime_ns), HostTime()),
                         HostTime(start.t1_realtime_ns)};
  ring::State state = StateOf(start.capture, ring::ClientState::kFailed);
  const ProcessLog read = Read(process, window.start);
  if (read.ended && *read.ended <= window.start) {
    SetText(state, "it ended before the window: a longer --last reaches it");
    return state;
  }
  if (read.ended) {
    state.cut = ring::Cut::kProgramEnded;
    window.end = std::min(window.end, *read.ended);
  }
  if (read.log.complete_since > window.start) {
    window.start = std::min(read.log.complete_since, window.end);
    SetText(state, "its operation log holds less than the window");
  }
  Batcher batcher({target.capture, process, target.incarnation, kEpoch});
  const auto flush = [&] {
    if (std::optional<BatchData> batch = batcher.Flush()) target.batches.push_back(*std::move(batch));
  };
  const LogRecordCounts counts = WriteLogRecords(read.log, window, [&](const ring::RecordView& record) {
    batcher.Add(record);
    if (batcher.full()) flush();
  });
  flush();
  log_.Info("log_captured",
            {{"pid", process.pid}, {"kernels", counts.kernels}, {"not_started", counts.not_started}});
  if (counts.kernels == 0) {
    SetText(state, counts.not_started == 0
                       ? "it began no NCCL operation in the window: a longer --last may reach the last one"
                       : "its NCCL reports no times of kernels: NCCL 2.26 or later does");
    target.batches.clear();
    return state;
  }
  target.records = batcher.records();
  target.unreadable = read.log.unreadable;
  state.state = ring::ClientState::kDone;
  state.records = target.records;
  state.t0_realtime_ns = window.start.ns();
  state.t1_realtime_ns = window.end.ns();
  return state;
}

bool LogCapturePath::StartIterations(const ProcessId&, const KinetoIterations&, HostTime) { return false; }
bool LogCapturePath::KnowsTriggers(const ProcessId&) const { return false; }
Nanos LogCapturePath::Lead(const ProcessId&) const { return Nanos(); }

uint64_t LogCapturePath::BeginDrain(const ProcessId& process, const std::string& capture,
                                    std::shared_ptr<Spool> spool) {
  targets_[process] = {.capture = capture, .spool = std::move(spool), .incarnation = next_incarnation_++};
  return kEpoch;
}

void LogCapturePath::RestartDrain(const ProcessId&) {}

void LogCapturePath::AbandonDrain(const ProcessId& process) { targets_.erase(process); }

void LogCapturePath::EndDrain(const ProcessId& process, uint64_t number, const HostInterval& window) {
  const auto found = targets_.find(process);
  if (found == targets_.end()) return;
  loop_.Post([this, process, number, window, target = std::move(found->second)]() mutable {
    if (target.spool == nullptr) return captures_.OnDrained(process, number, 0);
    for (BatchData& batch : target.batches) target.spool->Add(std::move(batch));
    v1::CaptureEnd end;
    end.set_capture(target.capture);
    ToProto(process, end.mutable_process());
    end.set_t0_host_ns(window.start.ns());
    end.set_t1_host_ns(window.end.ns());
    AddLoss("ring", columns::Kind::kCollective, target.unreadable,
            "they were being written when the operation log was read", window, end);
    // As for a client's drain: the aggregator may answer the end with the next capture.
    captures_.OnDrained(process, number, target.records);
    target.spool->AddEnd(std::move(end));
  });
  targets_.erase(found);
}

}  // namespace lockstep::daemon
