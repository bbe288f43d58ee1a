// Measures the trace writers, beside a floor: copying as many bytes into the same sink.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "base/files/byte_sink.h"
#include "capture/align/clock_model.h"
#include "capture/align/match.h"
#include "capture/model/capture.h"
#include "formats/input/bench_job_fixture.h"
#include "formats/kineto/kineto_writer.h"
#include "formats/otf2/otf2_writer.h"
#include "formats/perfetto/perfetto_writer.h"

namespace lockstep::formats {
namespace {

struct Input {
  capture::Capture capture;
  capture::Matches matches;
  capture::ClockModel clock;
  uint64_t events = 0;
};

const Input& TheInput() {
  static const Input input = [] {
    Input made;
    made.capture = BenchJob();
    made.events = EventsOf(made.capture);
    made.matches = capture::Match(made.capture);
    made.clock = capture::EstimateClocks(made.capture, made.matches);
    return made;
  }();
  return input;
}

void Report(benchmark::State& state, uint64_t bytes) { ReportRates(state, TheInput().events, bytes); }

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

// Copies as many bytes as the Perfetto trace has, in pieces of the same size.
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

uint64_t BytesUnder(const std::filesystem::path& folder) {
  uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) bytes += entry.file_size();
  }
  return bytes;
}

const std::string kOtf2Folder = std::filesystem::temp_directory_path() / "lockstep-otf2-bench";

void Otf2(benchmark::State& state) {
  const Input& input = TheInput();
  uint64_t bytes = 0;
  for (auto _ : state) {
    if (!WriteOtf2(input.capture, input.matches, input.clock, kOtf2Folder).ok())
      state.SkipWithError("write failed");
    state.PauseTiming();
    bytes += BytesUnder(kOtf2Folder);
    state.ResumeTiming();
  }
  std::filesystem::remove_all(kOtf2Folder);
  Report(state, bytes);
}

// Writes as many bytes as the OTF2 archive has into one file of the same file system.
void FloorOtf2File(benchmark::State& state) {
  const Input& input = TheInput();
  if (!WriteOtf2(input.capture, input.matches, input.clock, kOtf2Folder).ok())
    state.SkipWithError("write failed");
  const uint64_t whole = BytesUnder(kOtf2Folder);
  std::filesystem::remove_all(kOtf2Folder);
  const std::string piece(256 * 1024, 'x');
  for (auto _ : state) {
    std::ofstream file(kOtf2Folder, std::ios::binary | std::ios::trunc);
    for (uint64_t left = whole; left > 0; left -= std::min<uint64_t>(left, piece.size())) {
      file.write(piece.data(), static_cast<std::streamsize>(std::min<uint64_t>(left, piece.size())));
    }
    file.close();
  }
  std::filesystem::remove(kOtf2Folder);
  Report(state, whole * static_cast<uint64_t>(state.iterations()));
}

BENCHMARK(FloorOtf2File)->Unit(benchmark::kMillisecond);
BENCHMARK(Otf2)->Unit(benchmark::kMillisecond);
BENCHMARK(FloorCopy)->Unit(benchmark::kMillisecond);
BENCHMARK(Perfetto)->Unit(benchmark::kMillisecond);
BENCHMARK(Kineto)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace lockstep::formats

BENCHMARK_MAIN();
