#include "scenario/recorded.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

namespace lockstep::scenario {
namespace {

// Host and device stamps agree to about this time. The end of a wait is not compared more closely.
constexpr Nanos kClockSlack = Nanos::Micros(20);
// Work that starts within this time after other work ended is taken to have waited for it.
constexpr Nanos kCausalGap = Nanos::Micros(30);
constexpr Nanos kStampSlack = Nanos::Micros(2);
// The number of latest operations on another stream that may be the awaited one.
constexpr size_t kLookBack = 64;

// In the order of the program at one time: a range ends before the next one begins. Only a range without
// length ends after its own begin.
enum class ItemKind : uint8_t { kPop, kPush, kUnlaunched, kCall, kPopOfEmpty };

// An action of the host, or device work without a recorded launch, in the order of the program.
struct Item {
  Nanos at;
  ItemKind kind;
  uint32_t index;
  auto operator<=>(const Item&) const = default;
};

class ProgramWriter {
 public:
  explicit ProgramWriter(const RecordedRank& recorded) : in_(recorded) {
    work_of_call_.resize(in_.calls.size());
    stream_work_.resize(in_.streams.size());
    thread_end_.assign(in_.threads.size(), std::nullopt);
    needs_event_.assign(in_.work.size(), false);
    waits_for_.assign(in_.work.size(), kNoIndex);
    gap_.resize(in_.work.size());
  }

  Rank Run() {
    std::vector<Item> items = Items();
    for (const Item& item : items) Derive(item);
    out_.host = in_.host;
    out_.device = in_.device;
    out_.streams = in_.streams;
    out_.threads = in_.threads;
    for (const Item& item : items) Emit(item);
    return std::move(out_);
  }

 private:
  std::vector<Item> Items() {
    std::vector<Item> items;
    for (uint32_t i = 0; i < in_.calls.size(); ++i) items.push_back({in_.calls[i].start, ItemKind::kCall, i});
    for (uint32_t i = 0; i < in_.work.size(); ++i) {
      if (in_.work[i].call == kNoIndex)
        items.push_back({in_.work[i].start, ItemKind::kUnlaunched, i});
      else
        work_of_call_[in_.work[i].call].push_back(i);
    }
    for (uint32_t i = 0; i < in_.ranges.size(); ++i) {
      items.push_back({in_.ranges[i].start, ItemKind::kPush, i});
      const bool empty = in_.ranges[i].end == in_.ranges[i].start;
      items.push_back({in_.ranges[i].end, empty ? ItemKind::kPopOfEmpty : ItemKind::kPop, i});
    }
    std::sort(items.begin(), items.end());
    for (auto& work : work_of_call_) {
      std::sort(work.begin(), work.end(), [&](uint32_t a, uint32_t b) {
        return std::tie(in_.work[a].start, a) < std::tie(in_.work[b].start, b);
      });
    }
    return items;
  }

  // The first pass, in the program's order. It derives gaps and waits.
  void Derive(const Item& item) {
    if (item.kind == ItemKind::kUnlaunched) {
      DeriveWork(item.index);
    } else if (item.kind == ItemKind::kCall) {
      const RecordedCall& call = in_.calls[item.index];
      if (call.event_kind == RecordedEvent::kRecord) event_end_[call.event] = LastEnd(call.event_stream);
      if (call.event_kind == RecordedEvent::kWait) stream_waits_[call.event_stream].push_back(call.event);
      for (uint32_t w : work_of_call_[item.index]) DeriveWork(w);
      waits_.push_back(DeriveWait(call));
    }
  }

  void DeriveWork(uint32_t index) {
    const RecordedWork& work = in_.work[index];
    const uint32_t stream = work.shape.stream;
    Nanos base;
    if (const std::optional<Nanos> last = LastEnd(stream)) base = std::max(base, *last);
    if (work.call != kNoIndex) base = std::max(base, in_.calls[work.call].start);
    for (uint32_t event : stream_waits_[stream]) {
      if (const auto it = event_end_.find(event); it != event_end_.end() && it->second)
        base = std::max(base, *it->second);
    }
    stream_waits_[stream].clear();
    if (!in_.has_events) {
      waits_for_[index] = FindCause(stream, base, work.start);
      if (waits_for_[index] != kNoIndex) {
        needs_event_[waits_for_[index]] = true;
        base = std::max(base, in_.work[waits_for_[index]].end);
      }
    }
    gap_[index] = work.start - base;
    stream_work_[stream].push_back(index);
  }

  // Returns the work on another stream that ended last before `start`. It must have ended shortly before, and
  // `start` must be later than the known dependencies explain.
  uint32_t FindCause(uint32_t own_stream, Nanos base, Nanos start) const {
    uint32_t best = kNoIndex;
    for (uint32_t s = 0; s < stream_work_.size(); ++s) {
      const std::vector<uint32_t>& list = stream_work_[s];
      for (size_t back = 0; s != own_stream && back < std::min(list.size(), kLookBack); ++back) {
        const uint32_t candidate = list[list.size() - 1 - back];
        const Nanos end = in_.work[candidate].end;
        if (end > start + kStampSlack || end <= base || start - end > kCausalGap) continue;
        if (best == kNoIndex || end > in_.work[best].end) best = candidate;
      }
    }
    return best;
  }

  std::optional<Nanos> LastEnd(uint32_t stream) const {
    if (stream_work_[stream].empty()) return std::nullopt;
    return in_.work[stream_work_[stream].back()].end;
  }

  struct CallWait {
    Wait wait = Wait::kNothing;
    std::vector<uint32_t> streams;
    std::optional<Nanos> latest;
  };

  CallWait DeriveWait(const RecordedCall& call) const {
    CallWait result;
    if (call.wait == RecordedWait::kNothing) return result;
    for (uint32_t s = 0; s < stream_work_.size(); ++s) {
      const bool named =
          std::find(call.wait_streams.begin(), call.wait_streams.end(), s) != call.wait_streams.end();
      if (call.wait == RecordedWait::kStreams && !named) continue;
      const std::optional<Nanos> end = LastEnd(s);
      if (!end) continue;
      if (call.wait == RecordedWait::kSomeStream) {
        const bool plausible = *end > call.start && *end <= call.end + kClockSlack;
        if (!plausible || (result.latest && *result.latest >= *end)) continue;
        result.streams = {s};
        result.latest = end;
      } else {
        result.latest = std::max(result.latest.value_or(*end), *end);
      }
    }
    // The call cannot have waited for work that ended after it.
    if (!result.latest || *result.latest > call.end + kClockSlack) return {};
    result.wait = call.wait == RecordedWait::kAllStreams ? Wait::kAllStreams : Wait::kStreams;
    if (call.wait == RecordedWait::kStreams) result.streams = call.wait_streams;
    return result;
  }

  // The second pass writes the lines of the program.
  void Emit(const Item& item) {
    switch (item.kind) {
      case ItemKind::kPush:
        EmitMark(OpKind::kPush, in_.ranges[item.index], item.at);
        break;
      case ItemKind::kPop:
      case ItemKind::kPopOfEmpty:
        EmitMark(OpKind::kPop, in_.ranges[item.index], item.at);
        break;
      case ItemKind::kUnlaunched:
        EmitWork(item.index);
        break;
      case ItemKind::kCall:
        EmitCall(item.index);
        break;
    }
  }

  // Sets the gap of a host op. Threads of one process hand work to each other, as PyTorch's backward thread
  // does, so the op also follows the op of another thread that ended last before it.
  void PlaceHost(Nanos at, Nanos end, Op& op) {
    Nanos base = std::max(Nanos(), thread_end_[op.thread].value_or(Nanos()));
    for (uint32_t t = 0; t < thread_end_.size(); ++t) {
      if (t == op.thread || !thread_end_[t] || *thread_end_[t] > at || *thread_end_[t] <= base) continue;
      base = *thread_end_[t];
      op.follows = t;
    }
    thread_end_[op.thread] = end;
    op.gap = at - base;
  }

  void EmitMark(OpKind kind, const RecordedRange& range, Nanos at) {
    Op op;
    op.kind = kind;
    op.thread = range.thread;
    op.name = kind == OpKind::kPush ? range.name : kNoIndex;
    PlaceHost(at, at, op);
    out_.program.push_back(op);
  }

  void EmitCall(uint32_t index) {
    const RecordedCall& call = in_.calls[index];
    const CallWait& wait = waits_[next_wait_++];
    Op op;
    op.kind = OpKind::kCall;
    op.thread = call.thread;
    op.cbid = call.cbid;
    op.driver = call.driver;
    PlaceHost(call.start, call.end, op);
    op.service_time = call.end - call.start;
    op.wait = wait.wait;
    if (wait.wait == Wait::kStreams) op.wait_streams = wait.streams;
    if (wait.wait != Wait::kNothing && *wait.latest > call.start) {
      op.service_time = Nanos();
      op.tail = call.end - *wait.latest;
    }
    out_.program.push_back(op);
    if (call.event_kind != RecordedEvent::kNone) {
      EmitEvent(call.event_kind == RecordedEvent::kRecord ? OpKind::kRecordEvent : OpKind::kWaitEvent,
                call.event_stream, call.event);
    }
    for (uint32_t w : work_of_call_[index]) EmitWork(w);
  }

  void EmitEvent(OpKind kind, uint32_t stream, uint32_t event) {
    Op op;
    op.kind = kind;
    op.stream = stream;
    op.event = event;
    out_.program.push_back(op);
  }

  void EmitWork(uint32_t index) {
    const RecordedWork& work = in_.work[index];
    if (waits_for_[index] != kNoIndex) EmitEvent(OpKind::kWaitEvent, work.shape.stream, waits_for_[index]);
    Op op = work.shape;
    op.launched = work.call != kNoIndex;
    op.gap = gap_[index];
    op.service_time = work.end - (op.kind == OpKind::kCollective ? work.needed : work.start);
    out_.program.push_back(op);
    if (needs_event_[index]) EmitEvent(OpKind::kRecordEvent, work.shape.stream, index);
  }

  const RecordedRank& in_;
  Rank out_;
  std::vector<std::vector<uint32_t>> work_of_call_;
  std::vector<std::vector<uint32_t>> stream_work_;
  std::vector<std::optional<Nanos>> thread_end_;
  std::map<uint32_t, std::optional<Nanos>> event_end_;
  std::map<uint32_t, std::vector<uint32_t>> stream_waits_;
  std::vector<bool> needs_event_;
  std::vector<uint32_t> waits_for_;
  std::vector<Nanos> gap_;
  std::vector<CallWait> waits_;
  size_t next_wait_ = 0;
};

}  // namespace

Rank ToProgram(const RecordedRank& recorded) { return ProgramWriter(recorded).Run(); }

}  // namespace lockstep::scenario
