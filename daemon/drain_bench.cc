// Measures the path from ring to batch as the drain thread runs it: copy, check, convert, encode. The lower
// limit is a memcpy of the same bytes in the same run. Each iteration has the kernels of one capture.
#include <benchmark/benchmark.h>

#include <cstring>
#include <ctime>
#include <vector>

#include "base/read_clock.h"
#include "daemon/clients/client_fake.h"
#include "daemon/clients/daemon_segment.h"
#include "daemon/drain/batcher.h"
#include "wire/ring/client_segment.h"

namespace lockstep::daemon {
namespace {

constexpr uint64_t kRecords = 65536;

// CPU time, so that other processes on the same cores do not affect the result.
double CpuSeconds() { return 1e-9 * static_cast<double>(ReadClockNs(CLOCK_THREAD_CPUTIME_ID)); }

double FloorNanosPerRecord() {
  std::vector<char> from(kRecords * sizeof(ring::KernelRecord), 1);
  std::vector<char> to(from.size());
  const double start = CpuSeconds();
  constexpr int kRounds = 50;
  for (int i = 0; i < kRounds; ++i) {
    std::memcpy(to.data(), from.data(), from.size());
    benchmark::DoNotOptimize(to.data());
    benchmark::ClobberMemory();
  }
  return (CpuSeconds() - start) * 1e9 / (kRounds * static_cast<double>(kRecords));
}

void BM_RingToBatch(benchmark::State& state) {
  const auto segment = DaemonSegment::Create({});
  ring::ClientSegment client;
  if (!segment.ok() || client.Attach((*segment)->fd(), (*segment)->bytes()) != ring::AttachError::kNone) {
    state.SkipWithError("no segment");
    return;
  }
  ring::RingWriter writer = client.Writer(0);
  std::vector<std::byte> scratch(256u << 10);
  Batcher batcher({"capture", {1, 1}, 1, 1});
  double total = 0;
  size_t bytes = 0;
  for (auto _ : state) {
    state.PauseTiming();
    FakeClient::WriteKernels(writer, kRecords, 1'790'000'000'000'000'000, FakeClient::Names::kDefined);
    state.ResumeTiming();
    const double start = CpuSeconds();
    const auto flush = [&] {
      if (const auto batch = batcher.Flush()) bytes += batch->blocks.size();
    };
    const auto turn = (*segment)->Drain(scratch, 16u << 20, [&](const ring::RecordView& record) {
      batcher.Add(record);
      if (batcher.full()) flush();
    });
    flush();
    total += (CpuSeconds() - start);
    if (turn.records != kRecords) state.SkipWithError("records are missing");
  }
  client.Detach();
  const double records = static_cast<double>(state.iterations()) * static_cast<double>(kRecords);
  const double floor = FloorNanosPerRecord();
  state.counters["ns_per_record"] = total * 1e9 / records;
  state.counters["bytes_per_record"] = static_cast<double>(bytes) / records;
  state.counters["floor_ns"] = floor;
  state.counters["vs_memcpy"] = total * 1e9 / records / floor;
}
BENCHMARK(BM_RingToBatch);

}  // namespace
}  // namespace lockstep::daemon

BENCHMARK_MAIN();
