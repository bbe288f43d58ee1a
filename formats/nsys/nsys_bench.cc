// Measures the writer and the reader of nsys SQLite files. The floor is SQLite itself with as many rows in
// plain tables.
#include <benchmark/benchmark.h>
#include <sqlite3.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "capture/align/clock_model.h"
#include "formats/input/read_input.h"
#include "formats/nsys/nsys_writer.h"
#include "formats/nsys/sqlite_writer.h"

namespace lockstep::formats {
namespace {

namespace fs = std::filesystem;

// Two ranks of a training job: launches and kernels, and every hundredth kernel is a collective.
const capture::Capture& TheCapture() {
  static const capture::Capture capture = [] {
    capture::Capture made;
    made.hosts.push_back({.id = "a", .name = "a"});
    for (int32_t rank = 0; rank < 2; ++rank) {
      capture::RankData& r = made.ranks.emplace_back();
      r.rank = RankId(rank);
      r.host = 0;
      r.pid = 100 + rank;
      r.device = DeviceId(static_cast<uint32_t>(rank));
      for (uint32_t i = 0; i < 100000; ++i) {
        const HostTime at(1790000000000000000 + int64_t{i} * 10000);
        const bool collective = i % 100 == 0;
        const std::string name =
            collective ? "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)" : "kernel_" + std::to_string(i % 200);
        r.api_calls.push_back({.start = at,
                               .end = at + Nanos(3000),
                               .name = made.strings.Intern("cudaLaunchKernel"),
                               .correlation = CorrelationId(i + 1),
                               .thread = ThreadId(77),
                               .cbid = 211});
        r.activities.push_back({.start = at + Nanos(5000),
                                .end = at + Nanos(13000),
                                .name = made.strings.Intern(name),
                                .stream = StreamId(collective ? 20u : 7u),
                                .correlation = CorrelationId(i + 1),
                                .detail = i});
        r.kernel_details.push_back({.grid = {i, 1, 1}, .block = {256, 1, 1}, .registers = 64});
      }
    }
    capture::Finish(made);
    return made;
  }();
  return capture;
}

uint64_t Events() { return 400000; }

// Returns a path in the temporary folder. The benchmark removes the file at the end.
std::string PathOf(const char* name) {
  return (fs::temp_directory_path() /
          (std::string("lockstep_nsys_bench_") + name + std::to_string(::getpid())))
      .string();
}

void Report(benchmark::State& state, const std::string& path) {
  const auto rounds = static_cast<double>(state.iterations());
  const auto bytes = static_cast<double>(fs::file_size(path));
  state.counters["events/s"] =
      benchmark::Counter(static_cast<double>(Events()) * rounds, benchmark::Counter::kIsRate);
  state.counters["MB/s"] = benchmark::Counter(bytes * rounds / 1e6, benchmark::Counter::kIsRate);
  state.counters["bytes/event"] = bytes / static_cast<double>(Events());
  fs::remove(path);
}

// Writes as many rows with as many cells of the same numbers: half of the rows have 20 cells, half have 7.
void WritePlain(const std::string& path) {
  auto writer = SqliteWriter::Create(path);
  if (!writer.ok()) return;
  std::string columns = "c0 INTEGER";
  for (int c = 1; c < 20; ++c) columns += ", c" + std::to_string(c) + " INTEGER";
  writer->Execute("CREATE TABLE wide (" + columns + ")");
  writer->Execute(
      "CREATE TABLE narrow (c0 INTEGER, c1 INTEGER, c2 INTEGER, c3 INTEGER, c4 INTEGER, c5 INTEGER, c6 "
      "INTEGER)");
  const auto fill = [&](const char* sql, int cells) {
    auto statement = PrepareSqlite(writer->handle(), sql);
    for (int64_t i = 0; i < 200000; ++i) {
      for (int c = 1; c <= cells; ++c)
        sqlite3_bind_int64(statement->get(), c,
                           c <= 2   ? i * 10000
                           : c == 3 ? (int64_t{1} << 48) + 7
                                    : i & 0xFF);
      sqlite3_step(statement->get());
      sqlite3_reset(statement->get());
    }
  };
  fill("INSERT INTO wide VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", 20);
  fill("INSERT INTO narrow VALUES(?,?,?,?,?,?,?)", 7);
  if (!writer->Finish().ok()) std::abort();
}

void FloorWrite(benchmark::State& state) {
  const std::string path = PathOf("plain");
  for (auto _ : state) WritePlain(path);
  Report(state, path);
}

void FloorRead(benchmark::State& state) {
  const std::string path = PathOf("plain");
  WritePlain(path);
  for (auto _ : state) {
    auto database = SqliteDatabase::OpenFile(path);
    int64_t sum = 0;
    for (const auto& [table, cells] : {std::pair("wide", 20), std::pair("narrow", 7)}) {
      auto statement = PrepareSqlite(database->handle(), std::string("SELECT * FROM ") + table);
      while (sqlite3_step(statement->get()) == SQLITE_ROW) {
        for (int c = 0; c < cells; ++c) sum += sqlite3_column_int64(statement->get(), c);
      }
    }
    benchmark::DoNotOptimize(sum);
  }
  Report(state, path);
}

void Export(benchmark::State& state) {
  const std::string path = PathOf("export");
  for (auto _ : state) {
    if (!WriteNsysSqlite(TheCapture(), capture::ClockModel(), path).ok()) state.SkipWithError("write failed");
  }
  Report(state, path);
}

// Includes Finish(), as ReadInput() does.
void Import(benchmark::State& state) {
  const std::string path = PathOf("export");
  if (!WriteNsysSqlite(TheCapture(), capture::ClockModel(), path).ok()) state.SkipWithError("write failed");
  for (auto _ : state) {
    auto capture = ReadInput(std::vector<std::string>{path}, {});
    if (!capture.ok() || capture->ranks.size() != 2) state.SkipWithError("read failed");
  }
  Report(state, path);
}

BENCHMARK(FloorWrite)->Unit(benchmark::kMillisecond);
BENCHMARK(Export)->Unit(benchmark::kMillisecond);
BENCHMARK(FloorRead)->Unit(benchmark::kMillisecond);
BENCHMARK(Import)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace lockstep::formats

BENCHMARK_MAIN();
