#include "daemon/drain/spool.h"

#include <algorithm>

namespace lockstep::daemon {
namespace {

// Approximate size of an entry besides its blocks: message, deque, strings.
constexpr size_t kEntryOverhead = 512;
// Limit independent of the credits, because entries in flight cannot be dropped.
constexpr uint32_t kMostInFlight = 64;
constexpr char kStage[] = "spool";

bool SameProcess(const v1::ProcessKey& a, const v1::ProcessKey& b) {
  return a.pid() == b.pid() && a.start_ticks() == b.start_ticks();
}

constexpr char kFull[] = "the daemon's spool was full: the aggregator was too slow or not connected";

void AddLoss(v1::Gap& gap, uint32_t kind, uint64_t records, const HostInterval& span) {
  for (v1::Loss& loss : *gap.mutable_losses()) {
    if (loss.kind() != kind) continue;
    loss.set_records(loss.records() + records);
    loss.set_from_ns(std::min(loss.from_ns(), span.start.ns()));
    loss.set_to_ns(std::max(loss.to_ns(), span.end.ns()));
    return;
  }
  v1::Loss* loss = gap.add_losses();
  loss->set_stage(kStage);
  loss->set_kind(kind);
  loss->set_records(records);
  loss->set_reason(kFull);
  loss->set_from_ns(span.start.ns());
  loss->set_to_ns(span.end.ns());
}

const std::string& CaptureOf(const v1::FromDaemon& message) {
  switch (message.message_case()) {
    case v1::FromDaemon::kBatch:
      return message.batch().capture();
    case v1::FromDaemon::kGap:
      return message.gap().capture();
    case v1::FromDaemon::kTraceFile:
      return message.trace_file().capture();
    default:
      return message.end().capture();
  }
}

void SetSequence(v1::FromDaemon& message, uint64_t sequence) {
  switch (message.message_case()) {
    case v1::FromDaemon::kBatch:
      message.mutable_batch()->set_sequence(sequence);
      break;
    case v1::FromDaemon::kGap:
      message.mutable_gap()->set_first_sequence(sequence);
      message.mutable_gap()->set_last_sequence(sequence);
      break;
    case v1::FromDaemon::kTraceFile:
      message.mutable_trace_file()->set_sequence(sequence);
      break;
    default:
      message.mutable_end()->set_sequence(sequence);
      break;
  }
}

}  // namespace

void SpoolStats::AddCounts(const SpoolStats& other) {
  dropped_records += other.dropped_records;
  sent += other.sent;
  resent += other.resent;
  acknowledged += other.acknowledged;
}

Spool::~Spool() {
  MutexLock lock(&mutex_);
  for (const Entry& entry : entries_) {
    if (entry.in_flight) CountInFlight(entry, -1);
    Count(entry, -1);
  }
}

void Spool::OnReady(std::function<void()> ready) {
  MutexLock lock(&ready_mutex_);
  ready_ = std::move(ready);
}

void Spool::CallReady() {
  MutexLock lock(&ready_mutex_);
  if (ready_) ready_();
}

void Spool::Add(BatchData batch) {
  Entry entry;
  entry.bytes = batch.blocks.size() + kEntryOverhead;
  entry.definition_bytes = batch.definition_bytes;
  entry.definitions = batch.definitions;
  entry.rows = batch.rows;
  entry.span = batch.span;
  v1::Batch* message = entry.message.mutable_batch();
  message->set_capture(std::move(batch.capture));
  ToProto(batch.process, message->mutable_process());
  message->set_incarnation(batch.incarnation);
  message->set_blocks(std::move(batch.blocks));
  uint64_t rows = 0;
  for (uint64_t n : batch.rows) rows += n;
  message->set_rows(rows);
  Append(std::move(entry));
}

void Spool::AddEnd(v1::CaptureEnd end) {
  for (const v1::Loss& loss : end.losses()) losses_.Add(loss.stage(), loss.kind(), loss.records());
  Entry entry;
  entry.bytes = kEntryOverhead + end.ByteSizeLong();
  *entry.message.mutable_end() = std::move(end);
  Append(std::move(entry));
}

bool Spool::AddTraceFile(v1::TraceFile piece) {
  Entry entry;
  entry.bytes = kEntryOverhead + piece.data().size();
  const bool must = !piece.given_up().empty();
  *entry.message.mutable_trace_file() = std::move(piece);
  {
    MutexLock lock(&mutex_);
    // At least one piece must be accepted, however small the spool is.
    const size_t now = budget_->trace_file_bytes;
    const bool room = now == 0 || now + entry.bytes <= budget_->cap_bytes / 2;
    if (!room && !must) return false;
    Push(std::move(entry));
  }
  CallReady();
  return true;
}

void Spool::Append(Entry entry) {
  {
    MutexLock lock(&mutex_);
    Push(std::move(entry));
  }
  CallReady();
}

void Spool::Push(Entry entry) {
  entry.added = clock_.Monotonic();
  Count(entry, 1);
  entries_.push_back(std::move(entry));
  MakeRoom();
}

void Spool::Count(const Entry& entry, int sign) {
  const size_t change = sign > 0 ? entry.bytes : size_t{0} - entry.bytes;
  bytes_ += change;
  budget_->bytes += change;
  if (entry.message.has_trace_file()) budget_->trace_file_bytes += change;
}

void Spool::CountInFlight(const Entry& entry, int sign) {
  in_flight_ += sign > 0 ? 1 : size_t{0} - 1;
  budget_->in_flight_bytes += sign > 0 ? entry.bytes : size_t{0} - entry.bytes;
}

void Spool::MakeRoom() {
  size_t index = 0;
  while (OverCap()) {
    while (index < entries_.size() && (entries_[index].sequence != 0 || !entries_[index].message.has_batch()))
      ++index;
    if (index == entries_.size()) break;  // all other entries are in flight or carry no records
    ReplaceByGap(index);
  }
  for (Entry& entry : entries_) {
    if (!OverCap()) return;
    if (entry.sequence == 0 && entry.definitions > 0) DropDefinitions(entry);
  }
}

void Spool::ReplaceByGap(size_t index) {
  const Entry dropped = std::move(entries_[index]);
  const v1::Batch& batch = dropped.message.batch();
  Count(dropped, -1);

  Entry* gap = UnsentGap(batch.capture(), batch.process(), index);
  const bool merged = gap != nullptr;
  if (merged) {
    Count(*gap, -1);
  } else {
    gap = &entries_[index];
    *gap = Entry{};
    gap->bytes = kEntryOverhead;
    gap->added = dropped.added;
    gap->message.mutable_gap()->set_capture(batch.capture());
    *gap->message.mutable_gap()->mutable_process() = batch.process();
  }
  v1::Gap& message = *gap->message.mutable_gap();
  message.mutable_definitions()->append(batch.blocks(), 0, dropped.definition_bytes);
  gap->definitions += dropped.definitions;
  gap->bytes += dropped.definition_bytes;
  Count(*gap, 1);
  for (uint32_t kind = 0; kind < dropped.rows.size(); ++kind) {
    if (dropped.rows[kind] == 0) continue;
    AddLoss(message, kind, dropped.rows[kind], dropped.span);
    dropped_records_ += dropped.rows[kind];
    losses_.Add(kStage, kind, dropped.rows[kind]);
  }
  // Done last, because erasing moves the entry to which `gap` points.
  if (merged) entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(index));
}

void Spool::DropDefinitions(Entry& gap) {
  Count(gap, -1);
  v1::Gap& message = *gap.message.mutable_gap();
  gap.bytes -= message.definitions().size();
  message.clear_definitions();
  Count(gap, 1);
  const HostTime now = clock_.Realtime();
  constexpr auto kString = static_cast<uint32_t>(columns::Kind::kString);
  AddLoss(message, kString, gap.definitions, {now, now});
  losses_.Add(kStage, kString, gap.definitions);
  gap.definitions = 0;
}

Spool::Entry* Spool::UnsentGap(const std::string& capture, const v1::ProcessKey& process, size_t before) {
  for (size_t i = 0; i < before; ++i) {
    Entry& entry = entries_[i];
    if (entry.sequence == 0 && entry.message.has_gap() && entry.message.gap().capture() == capture &&
        SameProcess(entry.message.gap().process(), process)) {
      return &entry;
    }
  }
  return nullptr;
}

void Spool::Forget(const std::string& capture) {
  MutexLock lock(&mutex_);
  std::erase_if(entries_, [&](const Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const bool drop = entry.sequence == 0 && CaptureOf(entry.message) == capture;
    if (drop) Count(entry, -1);
    return drop;
  });
}

bool Spool::Take(v1::FromDaemon& message) {
  MutexLock lock(&mutex_);
  if (in_flight_ >= std::min(credits_, kMostInFlight)) return false;
  // Entries in flight cannot be dropped, so they must not fill the spool. At least one entry must be sent.
  if (in_flight_ > 0 && budget_->in_flight_bytes >= budget_->cap_bytes / 2) return false;
  const auto it = std::find_if(entries_.begin(), entries_.end(), [](const Entry& e) { return !e.in_flight; });
  if (it == entries_.end()) return false;
  if (it->sequence == 0) {
    it->sequence = next_sequence_++;
    SetSequence(it->message, it->sequence);
  } else {
    ++resent_;
  }
  it->in_flight = true;
  CountInFlight(*it, 1);
  message = it->message;
  return true;
}

void Spool::Retire(uint64_t through) {
  while (!entries_.empty() && entries_.front().sequence != 0 && entries_.front().sequence <= through) {
    const Entry& entry = entries_.front();
    if (entry.in_flight) CountInFlight(entry, -1);
    Count(entry, -1);
    acknowledged_ = entry.sequence;
    entries_.pop_front();
  }
}

void Spool::Acknowledge(uint64_t through, uint32_t credits) {
  {
    MutexLock lock(&mutex_);
    Retire(through);
    credits_ = credits;
  }
  CallReady();
}

void Spool::Resume(uint64_t stored_through, uint32_t credits) {
  MutexLock lock(&mutex_);
  Retire(stored_through);
  for (Entry& entry : entries_) {
    if (entry.in_flight) CountInFlight(entry, -1);
    entry.in_flight = false;
  }
  credits_ = credits;
}

SpoolStats Spool::stats() const {
  MutexLock lock(&mutex_);
  SpoolStats stats;
  stats.bytes = bytes_;
  stats.entries = entries_.size();
  stats.in_flight = in_flight_;
  if (!entries_.empty()) stats.oldest_age = clock_.Monotonic() - entries_.front().added;
  stats.dropped_records = dropped_records_;
  stats.sent = next_sequence_ - 1;
  stats.resent = resent_;
  stats.acknowledged = acknowledged_;
  return stats;
}

bool Spool::empty() const {
  MutexLock lock(&mutex_);
  return entries_.empty();
}

}  // namespace lockstep::daemon
