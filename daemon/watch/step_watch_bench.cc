// Measures the daemon's work per logged operation: reading it (LogCursor), and dividing the log into steps
// (StepRows). The floor is a copy of the entries.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "daemon/watch/step_rows.h"
#include "wire/ring/client_segment.h"
#include "wire/ring/log_cursor.h"
#include "wire/ring/segment.h"

namespace lockstep::daemon {
namespace {

constexpr uint64_t kCollectives = 20;  // of a step
constexpr uint64_t kEntries = ring::kLogEntries - ring::kLogEntries % (kCollectives + 1);

// A segment whose log is full of steps, each with a mark and some collectives.
class FullLog {
 public:
  FullLog() {
    if (ring::Segment::Create({.ring_count = 1}, &segment_) != ring::SegmentError::kNone ||
        client_.Attach(segment_.fd(), segment_.bytes()) != ring::AttachError::kNone)
      std::abort();
    for (uint64_t position = 1; position <= kEntries; ++position) Write(position);
    client_.header().log_newest = kEntries;
  }
  ~FullLog() { client_.Detach(); }
  const ring::Segment& segment() const { return segment_; }

 private:
  void Write(uint64_t position) {
    ring::LogEntry& entry = client_.log()[ring::LogPlace(position)];
    const bool mark = position % (kCollectives + 1) == 1;
    const auto at = static_cast<int64_t>(position * 1'000'000);
    entry.communicator = mark ? 0 : 1;
    entry.kind = static_cast<uint32_t>(mark ? ring::LogKind::kMarkedStep : ring::LogKind::kOperation);
    entry.operation.number = mark ? position / (kCollectives + 1) : position;
    entry.operation.count = 4096;
    entry.operation.entered_ns = entry.operation.started_ns = at;
    entry.operation.completed_ns = at + 500'000;
    entry.operation.function.Set("AllReduce");
    entry.operation.datatype.Set("ncclBfloat16");
    entry.position = position;
  }

  ring::Segment segment_;
  ring::ClientSegment client_;
};

void CopyEntries(benchmark::State& state) {
  const FullLog log;
  std::vector<char> copy(ring::kLogBytes);
  for (auto _ : state) {
    std::memcpy(copy.data(), static_cast<const void*>(log.segment().log()), ring::kLogBytes);
    benchmark::DoNotOptimize(copy.data());
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(kEntries));
}
BENCHMARK(CopyEntries);

void ReadEntries(benchmark::State& state) {
  const FullLog log;
  for (auto _ : state) {
    ring::LogCursor cursor;
    benchmark::DoNotOptimize(cursor.Read(log.segment(), HostTime::Max()));
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(kEntries));
}
BENCHMARK(ReadEntries);

void ReadAndDivide(benchmark::State& state) {
  const FullLog log;
  size_t steps = 0;
  for (auto _ : state) {
    ring::LogCursor cursor;
    StepRows rows;
    steps = rows.Add(cursor.Read(log.segment(), HostTime::Max()), [](uint64_t) { return 8; }).size();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(kEntries));
  state.counters["steps"] = static_cast<double>(steps);
}
BENCHMARK(ReadAndDivide);

}  // namespace
}  // namespace lockstep::daemon

BENCHMARK_MAIN();
