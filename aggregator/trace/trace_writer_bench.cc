// Traces out, beside the floor of copying as many bytes into the same sink.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "aggregator/align/clock_model.h"
#include "aggregator/align/match.h"
#include "aggregator/store/byte_sink.h"
#include "aggregator/store/capture.h"
#include "aggregator/trace/writers.h"

namespace lockstep::trace {
namespace {

class CountingSink final : public store::ByteSink {
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

struct Input {
  store::Capture capture;
  align::Matches matches;
  align::ClockModel clock;
  uint64_t events = 0;
};

// Two ranks as a training job leaves them: launches and kernels, every hundredth a collective.
const Input& TheInput() {
  static const Input input = [] {
    Input made;
    for (int32_t rank = 0; rank < 2; ++rank) {
      store::RankData& r = made.capture.ranks.emplace_back();
      r.rank = RankId(rank);
      for (uint32_t i = 0; i < 100000; ++i) {
        const HostTime at(1790000000000000000 + int64_t{i} * 10000);
        const bool collective = i % 100 == 0;
        const std::string name =
            collective ? "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)" : "kernel_" + std::to_string(i % 200);
        r.api_calls.push_back({.start = at,
                               .end = at + Nanos(3000),
                               .name = made.capture.strings.Intern("cudaLaunchKernel"),
                               .correlation = CorrelationId(i + 1),
                               .thread = ThreadId(77),
                               .cbid = 211});
        r.activities.push_back({.start = at + Nanos(5000),
                                .end = at + Nanos(13000),
                                .name = made.capture.strings.Intern(name),
                                .stream = StreamId(collective ? 20u : 7u),
                                .correlation = CorrelationId(i + 1),
                                .detail = i});
        r.kernel_details.push_back({.grid = {i, 1, 1}, .block = {256, 1, 1}, .registers = 64});
      }
      made.events += r.api_calls.size() + r.activities.size();
    }
    store::Finish(made.capture);
    made.matches = align::Match(made.capture);
    made.clock = align::EstimateClocks(made.capture, made.matches);
    return made;
  }();
  return input;
}

void Report(benchmark::State& state, uint64_t bytes) {
  const auto rounds = static_cast<double>(state.iterations());
  state.counters["events/s"] =
      benchmark::Counter(static_cast<double>(TheInput().events) * rounds, benchmark::Counter::kIsRate);
  state.counters["bytes/event"] =
      static_cast<double>(bytes) / rounds / static_cast<double>(TheInput().events);
}

void Perfetto(benchmark::State& state) {
  const Input& input = TheInput();
  CountingSink sink;
  for (auto _ : state) {
    if (!WritePerfetto(input.capture, input.matches, input.clock, sink).ok())
      state.SkipWithError("write failed");
  }
  Report(state, sink.bytes());
}

void Kineto(benchmark::State& state) {
  const Input& input = TheInput();
  CountingSink sink;
  for (auto _ : state) {
    for (uint32_t rank = 0; rank < input.capture.ranks.size(); ++rank) {
      if (!WriteKineto(input.capture, rank, input.clock, sink).ok()) state.SkipWithError("write failed");
    }
  }
  Report(state, sink.bytes());
}

// As many bytes as the Perfetto trace has, in pieces of the same size.
void FloorCopy(benchmark::State& state) {
  const Input& input = TheInput();
  CountingSink whole;
  if (!WritePerfetto(input.capture, input.matches, input.clock, whole).ok())
    state.SkipWithError("write failed");
  const std::string piece(256 * 1024, 'x');
  CountingSink sink;
  for (auto _ : state) {
    for (uint64_t left = whole.bytes(); left > 0; left -= std::min<uint64_t>(left, piece.size())) {
      if (!sink.Append(std::string_view(piece).substr(0, left)).ok()) state.SkipWithError("copy failed");
    }
  }
  Report(state, sink.bytes());
}

BENCHMARK(FloorCopy)->Unit(benchmark::kMillisecond);
BENCHMARK(Perfetto)->Unit(benchmark::kMillisecond);
BENCHMARK(Kineto)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace lockstep::trace

BENCHMARK_MAIN();
