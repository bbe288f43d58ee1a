// Measures the writing of tables. The floors are copying as many bytes into the same sink, and zstd alone
// over the columns in memory.
#include <benchmark/benchmark.h>
#include <zstd.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "formats/input/bench_job_fixture.h"
#include "report/report.h"
#include "views/tables/csv_sink.h"
#include "views/tables/parquet_sink.h"
#include "views/tables/tables.h"

namespace lockstep::views {
namespace {

using formats::CountingSink;

struct Job {
  capture::Capture capture;
  report::Analysis analysis;
  uint64_t events = 0;
  Sources sources = AllTables();
};

const Job& TheJob() {
  static const Job job = [] {
    Job made;
    made.capture = formats::BenchJob();
    made.events = formats::EventsOf(made.capture);
    made.analysis = report::Analyze(made.capture);
    return made;
  }();
  return job;
}

// True for the tables that have a row per event.
bool IsOfEvents(const TableSource& source) {
  return source.table().name == "device_activities" || source.table().name == "api_calls";
}

template <typename Sink>
uint64_t WriteEvents() {
  CountingSink bytes;
  for (const auto& source : TheJob().sources) {
    if (!IsOfEvents(*source)) continue;
    Sink sink(source->table(), bytes);
    if (!source->Write({TheJob().capture, TheJob().analysis}, sink).ok()) return 0;
  }
  return bytes.bytes();
}

template <typename Sink>
void Write(benchmark::State& state) {
  uint64_t bytes = 0;
  TheJob();
  for (auto _ : state) {
    const uint64_t written = WriteEvents<Sink>();
    if (written == 0) state.SkipWithError("write failed");
    bytes += written;
  }
  formats::ReportRates(state, TheJob().events, bytes);
}

template <typename Sink>
void FloorCopy(benchmark::State& state) {
  const uint64_t whole = WriteEvents<Sink>();
  const std::string piece(128 * 1024, 'x');
  CountingSink sink;
  for (auto _ : state) {
    for (uint64_t left = whole; left > 0; left -= std::min<uint64_t>(left, piece.size())) {
      if (!sink.Append(std::string_view(piece).substr(0, left)).ok()) state.SkipWithError("copy failed");
    }
  }
  formats::ReportRates(state, TheJob().events, sink.bytes());
}

// Compresses columns of whole numbers as they are. It leaves out texts, so this floor is rather too low.
class ZstdOnly final : public TableSink {
 public:
  ZstdOnly(const Table&, ByteSink& sink) : sink_(sink) {}
  absl::Status Append(const Batch& batch) override {
    for (const Cells& cells : batch.columns) {
      const size_t size = cells.numbers().size() * sizeof(int64_t);
      out_.resize(ZSTD_compressBound(size));
      const size_t made = ZSTD_compress(out_.data(), out_.size(), cells.numbers().data(), size, 1);
      if (absl::Status s = sink_.Append(std::string_view(out_).substr(0, made)); !s.ok()) return s;
    }
    return absl::OkStatus();
  }
  absl::Status Finish() override { return absl::OkStatus(); }

 private:
  ByteSink& sink_;
  std::string out_;
};

BENCHMARK(FloorCopy<CsvSink>)->Unit(benchmark::kMillisecond);
BENCHMARK(Write<CsvSink>)->Unit(benchmark::kMillisecond);
BENCHMARK(FloorCopy<ParquetSink>)->Unit(benchmark::kMillisecond);
BENCHMARK(Write<ZstdOnly>)->Name("FloorZstdOfNumbers")->Unit(benchmark::kMillisecond);
BENCHMARK(Write<ParquetSink>)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace lockstep::views

BENCHMARK_MAIN();
