// Measures encode and decode per event. The baseline is a memcpy of the same rows as fixed 32-byte records in
// the same run, and "vs_memcpy" is the ratio. Goals: encode <= 80 ns/event, <= 8 bytes/event.
#include <benchmark/benchmark.h>

#include <array>
#include <cstring>
#include <ctime>
#include <random>
#include <vector>

#include "base/read_clock.h"
#include "wire/columns/columns.h"

namespace columns = lockstep::columns;

namespace {

constexpr uint32_t kRows = 8192;
using Kernel = std::array<uint64_t, columns::kernel::kColumns>;
using Call = std::array<uint64_t, columns::api::kColumns>;

// Launches with jitter, and kernels of a dozen shapes on two streams, as in a training step.
struct Step {
  std::vector<Kernel> kernels;
  std::vector<Call> calls;
};

Step MakeStep() {
  std::mt19937_64 random(5);
  Step step;
  uint64_t host = 1'790'000'000'000'000'000ull;
  uint64_t device = host + 20'000;
  for (uint32_t i = 0; i < kRows; ++i) {
    host += 4'000 + random() % 3'000;
    step.calls.push_back({host, 3'000 + random() % 2'000, 1000 + 2 * i, 211, 4711, 0, 0, 2});
    const uint64_t shape = random() % 12;
    const uint64_t duration = 3'000 + shape * 4'000 + random() % 400;
    step.kernels.push_back({device, duration, 1000 + 2 * i, 0, 1, shape == 0 ? 20u : 7u, 10 + shape,
                            64u << (shape % 4), 1, 1, 128, 1, 1, 32 + shape, 0, shape * 1024, 0, 0, 0});
    device += duration + 900 + random() % 300;
  }
  return step;
}

// Uses CPU time, so that other processes on the same cores do not affect the figures.
double CpuSeconds() { return 1e-9 * static_cast<double>(lockstep::ReadClockNs(CLOCK_THREAD_CPUTIME_ID)); }

double FloorNanosPerEvent() {
  static const double floor = [] {
    std::vector<char> from(2 * kRows * 32, 1);
    std::vector<char> to(from.size());
    const double start = CpuSeconds();
    constexpr int kRounds = 2000;
    for (int i = 0; i < kRounds; ++i) {
      std::memcpy(to.data(), from.data(), from.size());
      benchmark::DoNotOptimize(to.data());
      benchmark::ClobberMemory();
    }
    return (CpuSeconds() - start) * 1e9 / (kRounds * 2.0 * kRows);
  }();
  return floor;
}

std::string EncodeStep(const Step& step, columns::BlockBuilder& kernels, columns::BlockBuilder& calls) {
  std::string out;
  for (const Kernel& k : step.kernels) kernels.Append(k);
  for (const Call& c : step.calls) calls.Append(c);
  kernels.Encode(1, 0, out);
  calls.Encode(1, kRows, out);
  return out;
}

void Report(benchmark::State& state, double seconds_per_iteration, size_t bytes) {
  const double ns = seconds_per_iteration * 1e9 / (2.0 * kRows);
  state.counters["ns_per_event"] = ns;
  state.counters["bytes_per_event"] = static_cast<double>(bytes) / (2.0 * kRows);
  state.counters["floor_ns"] = FloorNanosPerEvent();
  state.counters["vs_memcpy"] = ns / FloorNanosPerEvent();
}

template <typename F>
void Measure(benchmark::State& state, size_t bytes, F body) {
  double total = 0;
  for (auto _ : state) {
    const double start = CpuSeconds();
    body();
    total += CpuSeconds() - start;
  }
  Report(state, total / static_cast<double>(state.iterations()), bytes);
}

void BM_Encode(benchmark::State& state) {
  const Step step = MakeStep();
  columns::BlockBuilder kernels(columns::Kind::kKernel);
  columns::BlockBuilder calls(columns::Kind::kApi);
  const size_t bytes = EncodeStep(step, kernels, calls).size();
  Measure(state, bytes, [&] { benchmark::DoNotOptimize(EncodeStep(step, kernels, calls)); });
}
BENCHMARK(BM_Encode);

void BM_Decode(benchmark::State& state) {
  const Step step = MakeStep();
  columns::BlockBuilder kernels(columns::Kind::kKernel);
  columns::BlockBuilder calls(columns::Kind::kApi);
  const std::string encoded = EncodeStep(step, kernels, calls);
  columns::DecodedBlock block;
  Measure(state, encoded.size(), [&] {
    std::span<const std::byte> rest = std::as_bytes(std::span(encoded));
    while (!rest.empty()) {
      auto taken = columns::Decode(rest, block);
      if (!taken.ok()) {
        state.SkipWithError("decode failed");
        return;
      }
      benchmark::DoNotOptimize(block.columns.data());
      rest = rest.subspan(*taken);
    }
  });
}
BENCHMARK(BM_Decode);

}  // namespace

BENCHMARK_MAIN();
