#include "client/nvtx/nvtx_source.h"

#include <cstring>

#include "base/step_name.h"

namespace lockstep::client {
namespace {

namespace nvtx = foreign::nvtx;
using ring::RecordKind;

}  // namespace

RangeText NvtxSource::Keep(ThreadSlot& slot, RangeMessage message) {
  if (message.length == 0) return {};
  Interner::Entry* entry = slot.names.Find(message.text, message.length);
  // The memory is used up, so define the string now, while its text is valid.
  if (entry == nullptr) return {nullptr, slot.names.Intern(slot.ring, message.text, message.length)};
  return {entry, 0};
}

uint32_t NvtxSource::Define(ThreadSlot& slot, RangeText text) {
  return text.entry == nullptr ? text.id : slot.names.Define(slot.ring, *text.entry);
}

std::string_view NvtxSource::NameOf(const void* domain) const {
  if (domain == nullptr) return {};
  // Only addresses in our own table are our domains. The handles of another injection have no name here.
  const auto* at = static_cast<const Domain*>(domain);
  if (at < domains_ || at >= domains_ + kDomains) return {};
  return {at->name, std::strlen(at->name)};
}

uint32_t NvtxSource::DomainName(ThreadSlot& slot, const void* domain) {
  const std::string_view name = NameOf(domain);
  return name.empty() ? 0 : slot.names.Intern(slot.ring, name.data(), name.size());
}

void NvtxSource::NotifyTrigger(const void* domain, RangeMessage message, uint64_t key, HostTime now) {
  const std::string_view text(message.text, message.length);
  const std::string_view name = NameOf(domain);
  trigger_.OnRange(text, name, key, now);
  uint64_t number = 0;
  if (!NamesStep(text, &number)) return;
  trigger_.OnStep(
      number, name == kLockstepDomain ? Trigger::StepSource::kMarked : Trigger::StepSource::kNamed, key, now);
}

void NvtxSource::LogStep(const void* domain, RangeMessage message) {
  uint64_t number = 0;
  if (!NamesStep({message.text, message.length}, &number)) return;
  if (NameOf(domain) == kLockstepDomain) return;  // lockstep_step_begin has logged it
  log_.AddStep(number, ring::LogKind::kNamedStep);
}

void NvtxSource::Write(ThreadSlot& slot, const OpenRange& range, const Finished& times, uint32_t depth,
                       uint32_t thread) {
  const HostTime t0 = window_.t0();
  const HostTime t1 = window_.t1();
  const bool started_before = !times.start_known || times.start < t0;
  // A range belongs to the window by its start. One that started earlier belongs to it only if it ends inside
  // the window or was still open.
  const bool inside =
      window_.open() &&
      (started_before ? !times.end_known || (times.end >= t0 && times.end < t1) : times.start < t1);
  if (!inside) {
    ++slot.outside;
    return;
  }
  const uint32_t name = Define(slot, range.name);
  const uint32_t domain = DomainName(slot, range.domain);
  auto* to = slot.ring.New<ring::RangeRecord>();
  if (to != nullptr) {
    to->header.flags = static_cast<uint16_t>((started_before ? ring::kRangeStartUnknown : 0) |
                                             (times.end_known ? 0 : ring::kRangeEndUnknown));
    to->start_ns = started_before ? 0 : times.start.ns();
    to->end_ns = times.end_known ? times.end.ns() : 0;
    to->name = name;
    to->domain = domain;
    to->thread = thread;
    to->depth = depth;
    to->payload = range.payload;
  }
  slot.ring.Commit();
}

int NvtxSource::Push(const void* domain, RangeMessage message, uint64_t payload) {
  if (follows_steps()) LogStep(domain, message);
  if (idle()) return nvtx::kNoPushPopTracking;
  ThreadSlot* slot = recorder_.Enter();
  if (slot == nullptr) return nvtx::kNoPushPopTracking;
  const uint32_t depth = slot->ranges.depth();
  const HostTime now = clock_.now();
  slot->ranges.Push({domain, now, Keep(*slot, message), payload});
  if (trigger_.watching()) NotifyTrigger(domain, message, Trigger::KeyOfPush(slot->thread, depth), now);
  recorder_.Leave(*slot);
  return static_cast<int>(depth);
}

int NvtxSource::Pop(const void* domain) {
  if (idle()) return nvtx::kNoPushPopTracking;
  const HostTime now = clock_.now();
  ThreadSlot* slot = recorder_.Enter();
  if (slot == nullptr) {
    recorder_.CountNoRing(RecordKind::kRange);
    return nvtx::kNoPushPopTracking;
  }
  OpenRange range;
  uint32_t depth = 0;
  switch (slot->ranges.Pop(domain, &range, &depth)) {
    case RangeStack::Popped::kRange:
      Write(*slot, range, {.start = range.start, .end = now}, depth, slot->thread);
      if (trigger_.watching()) trigger_.OnRangeEnd(Trigger::KeyOfPush(slot->thread, depth), now);
      break;
    case RangeStack::Popped::kUnknown:
      range.domain = domain;
      Write(*slot, range, {.end = now, .start_known = false}, 0, slot->thread);
      break;
    case RangeStack::Popped::kTooDeep:
      slot->ring.Lose(ring::LossReason::kTooLarge, RecordKind::kRange);
      break;
  }
  recorder_.Leave(*slot);
  return static_cast<int>(depth);
}

void NvtxSource::Mark(const void* domain, RangeMessage message, uint64_t payload) {
  if (idle()) return;
  const HostTime now = clock_.now();
  ThreadSlot* slot = recorder_.Enter();
  if (slot == nullptr) return recorder_.CountNoRing(RecordKind::kRange);
  if (window_.Contains(now)) {
    const uint32_t name = Define(*slot, Keep(*slot, message));
    const uint32_t domain_name = DomainName(*slot, domain);
    if (auto* to = slot->ring.New<ring::RangeRecord>()) {
      to->header.flags = ring::kRangeMark;
      to->start_ns = now.ns();
      to->end_ns = now.ns();
      to->name = name;
      to->domain = domain_name;
      to->thread = slot->thread;
      to->depth = slot->ranges.depth();
      to->payload = payload;
    }
    slot->ring.Commit();
  } else {
    ++slot->outside;
  }
  recorder_.Leave(*slot);
}

nvtx::RangeId NvtxSource::Start(const void* domain, RangeMessage message, uint64_t payload) {
  if (follows_steps()) LogStep(domain, message);
  if (idle()) return 0;
  // The slot keeps the agent's thread from closing started ranges while this thread fills one.
  ThreadSlot* slot = recorder_.Enter();
  if (slot == nullptr) {
    recorder_.CountNoRing(RecordKind::kRange);
    return 0;
  }
  const uint64_t serial = next_started_.fetch_add(1, std::memory_order_relaxed);
  nvtx::RangeId id = 0;
  for (uint32_t probe = 0; probe < kStarted && id == 0; ++probe) {
    const uint32_t index = static_cast<uint32_t>(serial + probe) % kStarted;
    Started& started = started_[index];
    uint64_t expected = started.id.load(std::memory_order_relaxed);
    // A range of an earlier capture never ends for this one, so its place is free.
    const bool stale = expected != 0 && expected != kFilling && expected >> 32 != (capture_ & 0xFFFFFFFFu);
    if ((expected != 0 && !stale) || !started.id.compare_exchange_strong(expected, kFilling)) continue;
    started.start = clock_.now();
    started.domain = domain;
    started.payload = payload;
    started.thread = slot->thread;
    started.length = static_cast<uint32_t>(message.length < kStartedText ? message.length : kStartedText);
    if (message.length > kStartedText) slot->ring.Lose(ring::LossReason::kTooLarge, RecordKind::kString);
    std::memcpy(started.text, message.text, started.length);
    id = capture_ << 32 | (serial & 0xFFFFFFu) << 8 | index;
    const HostTime now = started.start;
    started.id.store(id, std::memory_order_release);
    if (trigger_.watching()) NotifyTrigger(domain, message, Trigger::KeyOfStarted(id), now);
  }
  if (id == 0) slot->ring.Lose(ring::LossReason::kTooLarge, RecordKind::kRange);
  recorder_.Leave(*slot);
  return id;
}

void NvtxSource::End(nvtx::RangeId id) {
  if (idle()) return;
  const HostTime now = clock_.now();
  ThreadSlot* slot = recorder_.Enter();
  if (slot == nullptr) return recorder_.CountNoRing(RecordKind::kRange);
  Started& started = started_[id % kStarted];
  uint64_t expected = id;
  if (id != 0 && id >> 32 == (capture_ & 0xFFFFFFFFu) &&
      started.id.compare_exchange_strong(expected, kFilling)) {
    const OpenRange range{started.domain, started.start, Keep(*slot, {started.text, started.length}),
                          started.payload};
    Write(*slot, range, {.start = started.start, .end = now}, 0, started.thread);
    started.id.store(0, std::memory_order_release);
    if (trigger_.watching()) trigger_.OnRangeEnd(Trigger::KeyOfStarted(id), now);
  } else {
    Write(*slot, {}, {.end = now, .start_known = false}, 0, slot->thread);
  }
  recorder_.Leave(*slot);
}

void NvtxSource::CloseOpen(ThreadSlot& slot) {
  for (uint32_t depth = 0; depth < slot.ranges.depth(); ++depth) {
    const OpenRange& range = slot.ranges.at(depth);
    Write(slot, range, {.start = range.start, .end_known = false}, depth, slot.thread);
  }
  slot.ranges.Clear();
}

void NvtxSource::CloseStarted(ThreadSlot& slot) {
  for (Started& started : started_) {
    uint64_t id = started.id.load(std::memory_order_acquire);
    if (id == 0 || id == kFilling || id >> 32 != (capture_ & 0xFFFFFFFFu)) continue;
    if (!started.id.compare_exchange_strong(id, kFilling)) continue;
    const OpenRange range{started.domain, started.start, Keep(slot, {started.text, started.length}),
                          started.payload};
    Write(slot, range, {.start = started.start, .end_known = false}, 0, started.thread);
    started.id.store(0, std::memory_order_release);
  }
}

nvtx::DomainHandle NvtxSource::CreateDomain(const char* name) {
  const uint32_t index = domains_used_.fetch_add(1);
  if (index >= kDomains) {
    domains_used_.store(kDomains);
    // All domains beyond the table share this handle. Their ranges are on one stack, without a domain name.
    return &domains_used_;
  }
  Domain& domain = domains_[index];
  const size_t length = name == nullptr ? 0 : std::strlen(name);
  std::memcpy(domain.name, name, length < kDomainName - 1 ? length : kDomainName - 1);
  domain.is_nccl = std::strcmp(domain.name, "NCCL") == 0;
  return &domain;
}

bool NvtxSource::IsNccl(const void* domain) const {
  const auto* at = static_cast<const Domain*>(domain);
  return at >= domains_ && at < domains_ + kDomains && at->is_nccl;
}

void NvtxSource::NameThread(uint32_t thread, RangeMessage name) {
  if (thread == 0 || name.length == 0) return;
  if (name.length > kThreadName) name.length = kThreadName;
  for (uint32_t probe = 0; probe < kThreads; ++probe) {
    NamedThread& place = threads_[(thread + probe) % kThreads];
    uint32_t there = 0;
    if (!place.thread.compare_exchange_strong(there, thread) && there != thread) continue;
    // Two threads may name a third one at once. One of them is then too late.
    if (there == thread && place.length.exchange(0) == 0) return;
    std::memcpy(place.name, name.text, name.length);
    place.length.store(static_cast<uint32_t>(name.length), std::memory_order_release);
    break;
  }
  if (idle() || !window_.open()) return;
  ThreadSlot* slot = recorder_.Enter();
  if (slot == nullptr) return recorder_.CountNoRing(RecordKind::kThreadName);
  WriteThreadName(*slot, thread, name);
  recorder_.Leave(*slot);
}

void NvtxSource::WriteThreadName(ThreadSlot& slot, uint32_t thread, RangeMessage name) {
  const uint32_t id = slot.names.Intern(slot.ring, name.text, name.length);
  if (auto* to = slot.ring.New<ring::ThreadNameRecord>()) {
    to->thread = thread;
    to->name = id;
  }
  slot.ring.Commit();
}

void NvtxSource::WriteThreadNames(ThreadSlot& slot) {
  for (const NamedThread& place : threads_) {
    char name[kThreadName];
    const uint32_t length = place.length.load(std::memory_order_acquire);
    if (length == 0) continue;
    std::memcpy(name, place.name, length);
    WriteThreadName(slot, place.thread.load(std::memory_order_relaxed), {name, length});
  }
}

nvtx::StringHandle NvtxSource::RegisterString(const char* text, size_t length) {
  const uint32_t index = strings_used_.fetch_add(1);
  const auto size = static_cast<uint32_t>(length < kStringBytes ? length : kStringBytes);
  const uint32_t at = string_bytes_used_.fetch_add(size);
  if (index >= kStrings || at > kStringBytes - size) {
    // Neither counter may wrap around to a place in use.
    if (index >= kStrings) strings_used_.store(kStrings);
    string_bytes_used_.store(kStringBytes);
    return &strings_used_;
  }
  std::memcpy(string_bytes_ + at, text, size);
  strings_[index] = {string_bytes_ + at, size};
  return &strings_[index];
}

RangeMessage NvtxSource::Registered(nvtx::StringHandle handle) const {
  const auto* place = static_cast<const StringPlace*>(handle);
  if (place < strings_ || place >= strings_ + kStrings) return {};
  return {place->text, place->length};
}

}  // namespace lockstep::client
