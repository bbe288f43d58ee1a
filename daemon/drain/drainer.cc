#include "daemon/drain/drainer.h"

#include <algorithm>
#include <utility>

#include "daemon/drain/losses.h"

namespace lockstep::daemon {
namespace {

// Discards the records of an earlier capture and their loss counts.
void DiscardAll(DaemonSegment& segment) {
  segment.Discard();
  segment.TakeLosses();
  segment.TakeUnknown();
}

}  // namespace

Drainer::Drainer(const Clock& clock) : clock_(clock), scratch_(kScratchBytes), thread_([this] { Run(); }) {}

Drainer::~Drainer() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.SignalAll();
  thread_.join();
}

uint64_t Drainer::Begin(const ProcessId& process, std::shared_ptr<DaemonSegment> segment,
                        uint64_t incarnation, const std::string& capture, std::shared_ptr<Spool> spool) {
  DiscardAll(*segment);
  const uint64_t epoch = segment->NextEpoch();
  auto active = std::make_shared<Active>(BatchIdentity{capture, process, incarnation, epoch},
                                         std::move(segment), std::move(spool), clock_.Monotonic());
  {
    MutexLock lock(&mutex_);
    active_[process] = {std::move(active), false, std::nullopt};
  }
  changed_.SignalAll();
  return epoch;
}

bool Drainer::idle() {
  MutexLock lock(&mutex_);
  return active_.empty();
}

std::shared_ptr<Drainer::Active> Drainer::Find(const ProcessId& process) {
  MutexLock lock(&mutex_);
  const auto it = active_.find(process);
  return it == active_.end() ? nullptr : it->second.active;
}

std::optional<DrainEnd> Drainer::TakeEnd(const Active& active) {
  MutexLock lock(&mutex_);
  const auto it = active_.find(active.identity.process);
  if (it == active_.end() || it->second.active.get() != &active) return std::nullopt;
  return std::exchange(it->second.end, std::nullopt);
}

void Drainer::Restart(const ProcessId& process) {
  const std::shared_ptr<Active> active = Find(process);
  if (active == nullptr) return;
  MutexLock busy(&active->busy);
  DiscardAll(*active->segment);
  active->batcher = Batcher(active->identity);
}

void Drainer::End(const ProcessId& process, DrainEnd end) {
  {
    MutexLock lock(&mutex_);
    const auto it = active_.find(process);
    if (it == active_.end() || it->second.ending) return;
    it->second.end = std::move(end);
    it->second.ending = true;
    wake_ = true;
  }
  changed_.SignalAll();
}

void Drainer::Abandon(const ProcessId& process) {
  Entry entry;
  {
    MutexLock lock(&mutex_);
    const auto it = active_.find(process);
    if (it == active_.end()) return;
    entry = std::move(it->second);
    active_.erase(it);
  }
  MutexLock busy(&entry.active->busy);
  entry.active->abandoned = true;
}

void Drainer::Run() {
  MutexLock lock(&mutex_);
  Nanos pause = kShortestPause;
  while (!stopping_) {
    if (active_.empty()) {
      changed_.Wait(&mutex_,
                    [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || !active_.empty(); });
      pause = kShortestPause;
      continue;
    }
    std::vector<std::shared_ptr<Active>> all;
    for (const auto& [id, entry] : active_) all.push_back(entry.active);
    wake_ = false;
    {
      MutexUnlock unlocked(&mutex_);
      pause = std::min(DrainAll(all), pause * 2);
      all.clear();
    }
    changed_.WaitFor(&mutex_, pause,
                     [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || wake_; });
  }
}

// Returns the length of the pause: the more records there were, the shorter.
Nanos Drainer::DrainAll(const std::vector<std::shared_ptr<Active>>& all) {
  constexpr uint64_t kFewBytes = 8u << 10;
  Nanos pause = kLongestPause;
  for (const std::shared_ptr<Active>& active : all) {
    std::optional<DrainEnd> end = TakeEnd(*active);
    MutexLock busy(&active->busy);
    if (active->abandoned) continue;
    const DaemonSegment::Turn turn = DrainOnce(*active, kTurnBytes);
    if (turn.most_pending > kFewBytes || !turn.drained) {
      pause = kShortestPause;
    } else if (turn.records > 0) {
      pause = std::min(pause, kShortestPause * 4);
    }
    if (active->batcher.full() || clock_.Monotonic() - active->flushed > kBatchAge) Flush(*active);
    if (end) Finish(*active, *std::move(end));
  }
  return pause;
}

DaemonSegment::Turn Drainer::DrainOnce(Active& active, uint64_t most_bytes) {
  uint64_t bytes = 0;
  const DaemonSegment::Turn turn = active.segment->Drain(
      scratch_, most_bytes, [&](const ring::RecordView& record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(active.busy) {
        bytes += record.bytes.size();
        active.batcher.Add(record);
        if (active.batcher.full()) Flush(active);
      });
  ++turns_;
  records_ += turn.records;
  bytes_ += bytes;
  for (std::string& sentence : active.segment->TakeBroken()) active.broken.push_back(std::move(sentence));
  return turn;
}

void Drainer::Flush(Active& active) {
  active.flushed = clock_.Monotonic();
  std::optional<BatchData> batch = active.batcher.Flush();
  if (batch) active.spool->Add(*std::move(batch));
}

void Drainer::Finish(Active& active, const DrainEnd& end) {
  // A client that is done writes no more, so each ring holds at most its capacity.
  DrainOnce(active, UINT64_MAX);
  Flush(active);
  v1::CaptureEnd message;
  message.set_capture(active.identity.capture);
  ToProto(active.identity.process, message.mutable_process());
  message.set_t0_host_ns(end.window.start.ns());
  message.set_t1_host_ns(end.window.end.ns());
  AddLosses(active.segment->TakeLosses(), clock_.Monotonic() - active.begun, end.window, message);
  for (size_t kind = 0; kind < columns::kKinds; ++kind) {
    const bool string = static_cast<columns::Kind>(kind) == columns::Kind::kString;
    AddLoss(
        "ring", static_cast<columns::Kind>(kind), active.batcher.refused()[kind],
        string ? "the process defined more names than a capture allows" : "they ended before they started",
        end.window, message);
  }
  AddLoss("ring", static_cast<columns::Kind>(0), active.segment->TakeUnknown(),
          "this daemon does not know their kind: the client is newer than lockstepd", end.window, message);
  // The number of records in an unreadable ring is unknown, so each ring counts as one record without a kind.
  for (const std::string& sentence : active.broken) {
    AddLoss("ring", static_cast<columns::Kind>(0), 1, sentence, end.window, message);
  }
  {
    MutexLock lock(&mutex_);
    const auto it = active_.find(active.identity.process);
    if (it != active_.end() && it->second.active.get() == &active) active_.erase(it);
  }
  const auto add_end = [spool = active.spool, last = std::move(message)] { spool->AddEnd(last); };
  if (end.done) {
    end.done(active.batcher.records(), add_end);
  } else {
    add_end();
  }
}

}  // namespace lockstep::daemon
