// The job that the benchmarks of the writers write: two ranks of a training job with 400,000 events.
#ifndef LOCKSTEP_FORMATS_INPUT_BENCH_JOB_FIXTURE_H_
#define LOCKSTEP_FORMATS_INPUT_BENCH_JOB_FIXTURE_H_

#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/files/byte_sink.h"
#include "base/time.h"
#include "capture/model/capture.h"

namespace lockstep::formats {

class CountingSink final : public ByteSink {
 public:
  absl::Status Append(std::string_view bytes) override {
    kept_.assign(bytes);
    bytes_ += bytes.size();
    return absl::OkStatus();
  }
  absl::Status Finish() override { return absl::OkStatus(); }
  uint64_t bytes() const { return bytes_; }

 private:
  std::string kept_;
  uint64_t bytes_ = 0;
};

// The values are the same in every run. They vary, because repeated differences would compress better than
// those of real traces.
inline Nanos Jitter(uint32_t i) {
  uint32_t x = i * 2654435761u;
  x = (x ^ x >> 15) * 2246822519u;
  return Nanos(int64_t{(x ^ x >> 13) >> 21});
}

// Every hundredth kernel is a collective. The capture is Finish()ed.
inline capture::Capture BenchJob() {
  capture::Capture capture;
  for (int32_t rank = 0; rank < 2; ++rank) {
    capture::RankData& r = capture.ranks.emplace_back();
    r.rank = RankId(rank);
    for (uint32_t i = 0; i < 100000; ++i) {
      const HostTime at = HostTime(1790000000000000000 + int64_t{i} * 10000) + Jitter(i);
      const bool collective = i % 100 == 0;
      const std::string name =
          collective ? "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)" : "kernel_" + std::to_string(i % 200);
      r.api_calls.push_back({.start = at,
                             .end = at + Nanos(1000) + Jitter(i + 7),
                             .name = capture.strings.Intern("cudaLaunchKernel"),
                             .correlation = CorrelationId(i + 1),
                             .thread = ThreadId(77),
                             .cbid = 211});
      r.activities.push_back({.start = at + Nanos(5000),
                              .end = at + Nanos(9000) + Jitter(i + 13),
                              .name = capture.strings.Intern(name),
                              .stream = StreamId(collective ? 20u : 7u),
                              .correlation = CorrelationId(i + 1),
                              .detail = i});
      r.kernel_details.push_back({.grid = {i, 1, 1}, .block = {256, 1, 1}, .registers = 64});
    }
  }
  capture::Finish(capture);
  return capture;
}

inline uint64_t EventsOf(const capture::Capture& capture) {
  uint64_t events = 0;
  for (const capture::RankData& rank : capture.ranks)
    events += rank.api_calls.size() + rank.activities.size();
  return events;
}

// `bytes` is the sum over all rounds.
inline void ReportRates(benchmark::State& state, uint64_t events, uint64_t bytes) {
  const auto rounds = static_cast<double>(state.iterations());
  state.counters["events/s"] =
      benchmark::Counter(static_cast<double>(events) * rounds, benchmark::Counter::kIsRate);
  state.counters["bytes/event"] = static_cast<double>(bytes) / rounds / static_cast<double>(events);
  state.counters["MB/s"] = benchmark::Counter(static_cast<double>(bytes) * 1e-6, benchmark::Counter::kIsRate);
}

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_INPUT_BENCH_JOB_FIXTURE_H_
