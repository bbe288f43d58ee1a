#include "sim/cupti/activity_hub.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/read_clock.h"
#include "sim/cupti/record_size.h"

namespace lockstep::sim {
namespace {

namespace cupti = foreign::cupti;
using cupti::ActivityKind;

constexpr int64_t kNsPerMs = 1'000'000;

void SetStamps(uint8_t* record, ActivityKind kind, int64_t start_ns, int64_t end_ns) {
  const auto start = static_cast<uint64_t>(start_ns), end = static_cast<uint64_t>(end_ns);
  if (kind == ActivityKind::kConcurrentKernel) {
    auto* kernel = reinterpret_cast<cupti::Kernel10*>(record);
    kernel->start = start;
    kernel->end = end;
    kernel->completed = end;
  } else if (kind == ActivityKind::kMemcpy) {
    auto* copy = reinterpret_cast<cupti::Memcpy6*>(record);
    copy->start = start;
    copy->end = end;
  } else if (kind == ActivityKind::kMemset) {
    auto* set = reinterpret_cast<cupti::Memset4*>(record);
    set->start = start;
    set->end = end;
  } else if (kind == ActivityKind::kMemcpyPeer) {
    auto* copy = reinterpret_cast<cupti::MemcpyPeer4*>(record);
    copy->start = start;
    copy->end = end;
  } else if (kind == ActivityKind::kGraphTrace) {
    auto* graph = reinterpret_cast<cupti::GraphTrace2*>(record);
    graph->start = start;
    graph->end = end;
  }
}

}  // namespace

ActivityHub::~ActivityHub() {
  std::thread worker;
  {
    MutexLock lock(&state_);
    stop_ = true;
    worker = std::move(worker_);
  }
  work_.SignalAll();
  if (worker.joinable()) worker.join();
}

void ActivityHub::Register(cupti::BufferRequested requested, cupti::BufferCompleted completed) {
  MutexLock writing(&writing_);
  MutexLock lock(&state_);
  // The old owner receives the buffers that it supplied.
  if (completed_ != completed) {
    for (auto& [lane, buffer] : current_) {
      if (completed_ != nullptr) completed_(nullptr, 0, buffer.data, buffer.bytes, buffer.used);
    }
    current_.clear();
  }
  requested_ = requested;
  completed_ = completed;
  if (!worker_.joinable()) worker_ = std::thread([this] { RunWorker(); });
}

void ActivityHub::SetEnabled(ActivityKind kind, bool enabled, int64_t now) {
  Pump(now);
  const auto k = static_cast<uint32_t>(kind);
  if (k >= kKinds) return;
  const bool before = enabled_[k].exchange(enabled, std::memory_order_relaxed);
  if (kind != ActivityKind::kConcurrentKernel || !enabled || before) return;
  ++sessions_;
  int64_t never = 0;
  first_enabled_.compare_exchange_strong(never, now);
}

bool ActivityHub::DeviceLost() const {
  const int64_t first = first_enabled_.load();
  return settings_.device_lost_ms != 0 && first != 0 &&
         ReadClockNs(CLOCK_MONOTONIC) >= first + int64_t{settings_.device_lost_ms} * kNsPerMs;
}

bool ActivityHub::Ended() const {
  const int64_t first = first_enabled_.load();
  const bool finalized = settings_.finalize_ms != 0 && first != 0 &&
                         ReadClockNs(CLOCK_MONOTONIC) >= first + int64_t{settings_.finalize_ms} * kNsPerMs;
  return finalized || DeviceLost();
}

void ActivityHub::SetCallEnabled(cupti::CallbackDomain domain, uint32_t cbid, bool enabled, int64_t now) {
  if (cbid >= kCallbackIds) return;
  Pump(now);
  calls_[domain == cupti::CallbackDomain::kDriverApi ? 1 : 0][cbid].store(enabled ? kOn : kOff,
                                                                          std::memory_order_relaxed);
}

bool ActivityHub::Wants(ActivityKind kind) const {
  const auto k = static_cast<uint32_t>(kind);
  return k < kKinds && enabled_[k].load(std::memory_order_relaxed) && !Ended();
}

bool ActivityHub::WantsCall(cupti::CallbackDomain domain, uint32_t cbid) const {
  const bool driver = domain == cupti::CallbackDomain::kDriverApi;
  const uint8_t own =
      cbid < kCallbackIds ? calls_[driver ? 1 : 0][cbid].load(std::memory_order_relaxed) : uint8_t{kAsKind};
  if (own != kAsKind) return own == kOn;
  return Wants(driver ? ActivityKind::kDriver : ActivityKind::kRuntime);
}

uint64_t ActivityHub::Launch(const void* record, size_t bytes) {
  MutexLock lock(&state_);
  const uint64_t ticket = next_ticket_++;
  std::memcpy(in_flight_[ticket].data, record, std::min(bytes, kMaxRecordBytes));
  return ticket;
}

void ActivityHub::Complete(uint64_t ticket, int64_t start_ns, int64_t end_ns, int64_t release,
                           Delivery delivery) {
  MutexLock lock(&state_);
  auto it = in_flight_.find(ticket);
  if (it == in_flight_.end()) return;  // a forced flush has already delivered it
  SetStamps(it->second.data, it->second.kind(), start_ns, end_ns);
  ready_.push({release, next_order_++, start_ns, delivery, {}, 0, it->second});
  in_flight_.erase(it);
}

void ActivityHub::Record(const void* record, size_t bytes, SimCall call, int64_t stamp_ns, int64_t release,
                         Delivery delivery) {
  Ready ready{release, 0, stamp_ns, delivery, call, LaneOfCaller(), {}};
  std::memcpy(ready.bytes.data, record, std::min(bytes, kMaxRecordBytes));
  MutexLock lock(&state_);
  ready.order = next_order_++;
  ready_.push(ready);
}

void ActivityHub::Pump(int64_t now) {
  MutexLock writing(&writing_);
  while (true) {
    Ready next;
    {
      MutexLock lock(&state_);
      if (ready_.empty() || ready_.top().release > now) return;
      next = ready_.top();
      ready_.pop();
    }
    if (StillWanted(next)) Write(next, SimOutcome::kWritten);
  }
}

// Device work and dumped objects pass: the tool's wish was checked at their launch or at the request.
bool ActivityHub::StillWanted(const Ready& ready) const {
  const ActivityKind kind = ready.bytes.kind();
  if (ready.call.domain != cupti::CallbackDomain::kInvalid && !WantsCall(ready.call.domain, ready.call.cbid))
    return false;
  const bool of_host = kind == ActivityKind::kSynchronization || kind == ActivityKind::kExternalCorrelation ||
                       kind == ActivityKind::kCudaEvent || kind == ActivityKind::kMemory;
  return !of_host || Wants(kind);
}

void ActivityHub::Write(const Ready& ready, SimOutcome outcome) {
  Bytes bytes = ready.bytes;
  const ActivityKind kind = bytes.kind();
  const size_t size = RecordSize(kind, settings_.version);
  ++written_;
  if (IsNth(settings_.vanish) || (settings_.no_external && kind == ActivityKind::kExternalCorrelation))
    return;
  const bool faulty = IsNth(settings_.drop);
  Buffer& current = current_[ready.lane];
  if (ready.delivery == Delivery::kDrop || faulty || !MakeRoom(&current, size)) {
    if (current.data == nullptr) current_.erase(ready.lane);
    if (settings_.late_drops_ms == 0) {
      dropped_.fetch_add(1, std::memory_order_relaxed);
    } else {
      MutexLock lock(&drops_);
      late_drops_.emplace_back(ReadClockNs(CLOCK_MONOTONIC) + int64_t{settings_.late_drops_ms} * kNsPerMs, 1);
    }
    Note(ready.stamp_ns, kind, SimOutcome::kDropped, 1);
    return;
  }
  timebase_.Apply(bytes.data);
  ShowFaults(&bytes);
  Append(bytes, size, &current);
  if (IsNth(settings_.twice) && MakeRoom(&current, size)) Append(bytes, size, &current);
  Note(ready.stamp_ns, kind, outcome, 1);
}

void ActivityHub::Append(const Bytes& bytes, size_t size, Buffer* current) {
  std::memcpy(current->data + current->used, bytes.data, size);
  current->used += size;
  ++current->records;
}

void ActivityHub::ShowFaults(Bytes* bytes) {
  const bool later_session = sessions_.load(std::memory_order_relaxed) > 1;
  if (bytes->kind() == ActivityKind::kConcurrentKernel) {
    auto* kernel = reinterpret_cast<cupti::Kernel10*>(bytes->data);
    ++kernels_;
    if (settings_.stretch_percent != 0 || settings_.early_us != 0) {
      const int64_t early = int64_t{settings_.early_us} * 1000;
      const auto start = static_cast<int64_t>(kernel->start), end = static_cast<int64_t>(kernel->end);
      SetStamps(bytes->data, bytes->kind(), start - early,
                end - early + (end - start) * settings_.stretch_percent / 100);
    }
    if (settings_.zero_stamps != 0 && kernels_ % settings_.zero_stamps == 0)
      SetStamps(bytes->data, bytes->kind(), 0, 0);
    if (settings_.instant != 0 && kernels_ % settings_.instant == 0) kernel->end = kernel->start;
    if (settings_.correlation != 0 && kernels_ % settings_.correlation == 0)
      kernel->correlation_id += 1'000'000'000;
    if (settings_.graph_correlation && later_session && kernel->graph_id != 0) ++kernel->correlation_id;
  } else if (bytes->kind() == ActivityKind::kRuntime || bytes->kind() == ActivityKind::kDriver) {
    auto* call = reinterpret_cast<cupti::Api*>(bytes->data);
    const bool launches_graph = bytes->kind() == ActivityKind::kRuntime
                                    ? call->cbid == cupti::runtime_cbid::kGraphLaunch
                                    : call->cbid == cupti::driver_cbid::kGraphLaunch;
    if (settings_.graph_correlation && later_session && launches_graph) call->correlation_id += 2;
  }
}

bool ActivityHub::MakeRoom(Buffer* current, size_t bytes) {
  const bool full = current->used + bytes > current->bytes ||
                    (current->max_records != 0 && current->records >= current->max_records);
  if (current->data != nullptr && !full) return true;
  if (current->data != nullptr) ReturnBuffer(current);
  const Buffer fresh = RequestBuffer();
  if (fresh.data == nullptr) return false;
  *current = fresh;
  if (bytes <= fresh.bytes) return true;
  ReturnBuffer(current);
  return false;
}

ActivityHub::Buffer ActivityHub::RequestBuffer() {
  cupti::BufferRequested requested;
  {
    MutexLock lock(&state_);
    requested = requested_;
  }
  Buffer fresh;
  if (requested == nullptr) return fresh;
  requested(&fresh.data, &fresh.bytes, &fresh.max_records);
  if (fresh.data == nullptr && settings_.version < cupti::kVersion_12_9) {
    std::fprintf(stderr, "simulated CUPTI %u: a tool refused a buffer, which crashes CUPTI before 12.9\n",
                 settings_.version);
    std::abort();
  }
  if (fresh.data != nullptr && settings_.zeroing && !zeroed_by_tool_) std::memset(fresh.data, 0, fresh.bytes);
  return fresh;
}

void ActivityHub::ReturnBuffer(Buffer* current) {
  {
    MutexLock lock(&state_);
    full_.push_back(*current);
  }
  *current = {};
  work_.SignalAll();
}

void ActivityHub::ReturnAllBuffers() {
  for (auto& lane : current_) {
    Buffer& buffer = lane.second;
    // An empty buffer stays.
    if (buffer.data == nullptr || (settings_.keep_buffers && buffer.used == 0)) continue;
    ReturnBuffer(&buffer);
    if (settings_.keep_buffers) buffer = RequestBuffer();
  }
  if (settings_.keep_buffers)
    std::erase_if(current_, [](const auto& lane) { return lane.second.data == nullptr; });
  else
    current_.clear();
}

uint32_t ActivityHub::LaneOfCaller() const {
  return per_thread_.load(std::memory_order_relaxed) ? static_cast<uint32_t>(syscall(SYS_gettid)) : 0;
}

void ActivityHub::WriteInFlight(int64_t now) {
  std::vector<Bytes> unfinished;
  {
    MutexLock lock(&state_);
    for (auto& [ticket, bytes] : in_flight_) unfinished.push_back(bytes);
    in_flight_.clear();
    // The end of this work is computed, but the wall clock has not reached it. For the tool, the work is
    // still running.
    std::vector<Ready> later;
    for (; !ready_.empty(); ready_.pop()) {
      if (ready_.top().release > now && IsDeviceWork(ready_.top().bytes.kind()))
        unfinished.push_back(ready_.top().bytes);
      else
        later.push_back(ready_.top());
    }
    for (const Ready& ready : later) ready_.push(ready);
  }
  for (Bytes& bytes : unfinished) {
    SetStamps(bytes.data, bytes.kind(), 0, 0);
    Write({now, 0, 0, Delivery::kDeliver, {}, 0, bytes}, SimOutcome::kIncomplete);
  }
}

void ActivityHub::FlushAll(Flush flush, int64_t now) {
  if (Ended()) return;
  Pump(now);
  {
    MutexLock writing(&writing_);
    if (flush == Flush::kForced) WriteInFlight(now);
    ReturnAllBuffers();
  }
  MutexLock lock(&state_);
  if (!worker_.joinable() || std::this_thread::get_id() == worker_.get_id()) return;
  quiet_.Wait(&state_,
              [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_) { return full_.empty() && !delivering_; });
}

uint64_t ActivityHub::TakeDropped(int64_t realtime_ns) {
  uint64_t dropped = dropped_.exchange(0, std::memory_order_relaxed);
  if (settings_.late_drops_ms != 0) {
    MutexLock lock(&drops_);
    const int64_t now = ReadClockNs(CLOCK_MONOTONIC);
    for (; !late_drops_.empty() && late_drops_.front().first <= now; late_drops_.pop_front())
      dropped += late_drops_.front().second;
  }
  Note(realtime_ns, ActivityKind::kInvalid, SimOutcome::kDroppedRead, dropped);
  return dropped;
}

void ActivityHub::Reset() {
  for (auto& e : enabled_) e.store(false, std::memory_order_relaxed);
  for (auto& domain : calls_) {
    for (auto& call : domain) call.store(kAsKind, std::memory_order_relaxed);
  }
  MutexLock lock(&state_);
  ready_ = {};
  in_flight_.clear();
}

void ActivityHub::LockForFork() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  writing_.Lock();
  state_.Lock();
  drops_.Lock();
  timebase_.LockForFork();
}

void ActivityHub::UnlockAfterFork() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  timebase_.UnlockAfterFork();
  drops_.Unlock();
  state_.Unlock();
  writing_.Unlock();
}

size_t ActivityHub::Ledger(const SimLedgerEntry** entries) {
  MutexLock lock(&state_);
  *entries = ledger_.data();
  return ledger_.size();
}

void ActivityHub::Note(int64_t stamp_ns, ActivityKind kind, SimOutcome outcome, uint64_t count) {
  MutexLock lock(&state_);
  ledger_.push_back({stamp_ns, kind, outcome, count});
}

void ActivityHub::RunWorker() {
  MutexLock lock(&state_);
  while (true) {
    work_.Wait(&state_, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_) { return stop_ || !full_.empty(); });
    if (stop_) return;
    const Buffer buffer = settings_.reorder ? full_.back() : full_.front();
    settings_.reorder ? full_.pop_back() : full_.pop_front();
    const cupti::BufferCompleted completed = completed_;
    delivering_ = true;
    {
      MutexUnlock unlocked(&state_);
      if (settings_.late_buffers_ms != 0)
        std::this_thread::sleep_for(std::chrono::milliseconds(settings_.late_buffers_ms));
      if (completed != nullptr && !Ended()) completed(nullptr, 0, buffer.data, buffer.bytes, buffer.used);
    }
    delivering_ = false;
    if (full_.empty()) quiet_.SignalAll();
  }
}

}  // namespace lockstep::sim
