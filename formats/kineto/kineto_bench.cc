// Measures the import of Kineto traces and, in the same run, two floors: only inflating, and only walking the
// JSON.
//
// The input is a generated trace with the mix of rows that PyTorch writes. LOCKSTEP_BENCH_TRACE names a real
// trace to use instead.
#include <benchmark/benchmark.h>
#include <simdjson.h>
#include <zlib.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "base/files/read_files.h"
#include "formats/common/byte_source.h"
#include "formats/common/read_options.h"
#include "formats/kineto/kineto_reader.h"
#include "formats/kineto/kineto_text.h"
#include "formats/kineto/trace_document.h"

namespace lockstep::formats {
namespace {

std::string Generate() {
  std::vector<std::string> rows;
  for (int i = 0; i < 60000; ++i) {
    const int64_t ts = 1700000000000000 + 20 * int64_t{i};
    const std::string n = std::to_string(i);
    rows.push_back(HostRow(
        "cpu_op", i % 2 == 0 ? "aten::add_" : "autograd::engine::evaluate_function: ConvolutionBackward0", ts,
        9,
        R"("Input Dims": [[64, 256, 56, 56], [], [256], [], []], "Input type": ["float", "", "float", "Scalar", ""], "External id": )" +
            n));
    rows.push_back(R"({"ph": "f", "id": )" + n + R"(, "pid": 0, "tid": 7, "ts": )" + std::to_string(ts) +
                   R"(, "cat": "ac2g", "name": "ac2g", "bp": "e"})");
    if (i % 4 == 0)
      rows.push_back(HostRow("cuda_runtime", "cudaLaunchKernel", ts, 5,
                             R"("External id": )" + n + R"(, "cbid": 211, "correlation": )" + n));
    if (i % 4 == 0) {
      rows.push_back(KernelRow(
          std::to_string(ts), "7.125",
          "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
          "at::detail::Array<char*, 3> >(int, at::native::CUDAFunctor_add<float>, at::detail::Array<char*, "
          "3>)",
          R"(, "registers per thread": 32, "shared memory": 0, "blocks per SM": 4.5, "warps per SM": 9.75, "est. achieved occupancy %": 14)"));
    }
  }
  return Document(rows, R"("distributedInfo": {"rank": 0, "world_size": 1}, )");
}

std::string Compress(const std::string& text) {
  z_stream z = {};
  deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&z, text.size()), '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  deflate(&z, Z_FINISH);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

struct Input {
  std::string packed;
  size_t text_bytes = 0;
  uint64_t rows = 0;
};

const Input& TheInput() {
  static const Input input = [] {
    Input made;
    if (const char* path = std::getenv("LOCKSTEP_BENCH_TRACE")) {
      made.packed = FileText(path).value_or("");
    } else {
      made.packed = Compress(Generate());
    }
    auto source = GzipSource(std::make_unique<MemorySource>(made.packed));
    std::vector<char> buffer(1 << 20);
    while (const size_t n = source->Read(buffer)) made.text_bytes += n;
    source = GzipSource(std::make_unique<MemorySource>(made.packed));
    made.rows = ReadKineto(*source, ReadMode::kOneThread, HostDetail::kUnions, nullptr).rows;
    return made;
  }();
  return input;
}

void Report(benchmark::State& state) {
  const auto rounds = static_cast<double>(state.iterations());
  state.counters["text_MB/s"] = benchmark::Counter(static_cast<double>(TheInput().text_bytes) * 1e-6 * rounds,
                                                   benchmark::Counter::kIsRate);
  state.counters["rows/s"] =
      benchmark::Counter(static_cast<double>(TheInput().rows) * rounds, benchmark::Counter::kIsRate);
}

void FloorInflate(benchmark::State& state) {
  const Input& input = TheInput();
  std::vector<char> buffer(512 * 1024);
  for (auto _ : state) {
    auto source = GzipSource(std::make_unique<MemorySource>(input.packed));
    while (source->Read(buffer) != 0) benchmark::DoNotOptimize(buffer.data());
  }
  Report(state);
}

void FloorSplit(benchmark::State& state) {
  for (auto _ : state) {
    auto source = GzipSource(std::make_unique<MemorySource>(TheInput().packed));
    TraceDocument document(*source);
    EventBlock block;
    while (document.Next(block)) benchmark::DoNotOptimize(block.data());
  }
  Report(state);
}

// Inflates, splits, and visits every row's keys without reading them.
void FloorWalk(benchmark::State& state) {
  uint64_t keys = 0;
  for (auto _ : state) {
    auto source = GzipSource(std::make_unique<MemorySource>(TheInput().packed));
    TraceDocument document(*source);
    EventBlock block;
    simdjson::ondemand::parser parser;
    while (document.Next(block)) {
      simdjson::ondemand::document json;
      const simdjson::padded_string_view text(block.text().data(), block.text().size(), block.readable());
      if (parser.iterate(text).get(json)) continue;
      for (auto row : json.get_array()) {
        for (auto field : row.get_object()) keys += field.error() == simdjson::SUCCESS ? 1 : 0;
      }
    }
  }
  benchmark::DoNotOptimize(keys);
  Report(state);
}

void Import(benchmark::State& state) {
  const auto mode = static_cast<ReadMode>(state.range(0));
  for (auto _ : state) {
    auto source = GzipSource(std::make_unique<MemorySource>(TheInput().packed));
    KinetoFile file = ReadKineto(*source, mode, HostDetail::kUnions, nullptr);
    benchmark::DoNotOptimize(file.rows);
  }
  Report(state);
}

BENCHMARK(FloorInflate)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(FloorSplit)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(FloorWalk)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(Import)
    ->ArgName("pipeline")
    ->Arg(static_cast<int>(ReadMode::kOneThread))
    ->Arg(static_cast<int>(ReadMode::kPipeline))
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace lockstep::formats

BENCHMARK_MAIN();
