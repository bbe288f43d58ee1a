// Measures the conversion of CUPTI records to ring records, in ns per record. The baseline only steps through
// the buffer, in the same run. The buffer has 1 MiB with alternating kernels and calls and 64 kernel names,
// as in a training step.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "client/cupti/converter.h"
#include "client/cupti/cupti_source.h"
#include "wire/ring/client_segment.h"
#include "wire/ring/segment.h"

namespace lockstep::client {
namespace {

namespace cupti = foreign::cupti;

// Steps to the next record like CUPTI's function, for these two kinds.
cupti::Result NextRecord(uint8_t* buffer, size_t valid, cupti::Activity** record) {
  uint8_t* at = buffer;
  if (*record != nullptr) {
    const bool kernel = (*record)->kind == cupti::ActivityKind::kConcurrentKernel;
    at = reinterpret_cast<uint8_t*>(*record) + (kernel ? sizeof(cupti::Kernel10) : sizeof(cupti::Api));
  }
  if (at >= buffer + valid) return cupti::Result::kMaxLimitReached;
  *record = reinterpret_cast<cupti::Activity*>(at);
  return cupti::Result::kSuccess;
}

struct Buffer {
  std::vector<uint8_t> bytes;
  std::vector<std::string> names;
  size_t records = 0;

  Buffer() {
    for (int i = 0; i < 64; ++i) {
      names.push_back(
          "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
          "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>)_" +
          std::to_string(i));
    }
    while (bytes.size() + sizeof(cupti::Kernel10) + sizeof(cupti::Api) <= kCuptiBufferBytes) {
      const auto n = static_cast<uint32_t>(records);
      cupti::Api api{};
      api.kind = cupti::ActivityKind::kRuntime;
      api.cbid = cupti::runtime_cbid::kLaunchKernel;
      api.start = 1000 + n;
      api.end = 1005 + n;
      api.thread_id = 7;
      api.correlation_id = n;
      Append(api);
      cupti::Kernel10 kernel{};
      kernel.kind = cupti::ActivityKind::kConcurrentKernel;
      kernel.start = 1010 + n;
      kernel.end = 1020 + n;
      kernel.stream_id = 7 + n % 3;
      kernel.correlation_id = n;
      kernel.name = names[n * 7 % names.size()].c_str();
      Append(kernel);
    }
  }
  template <typename Record>
  void Append(const Record& record) {
    const auto* from = reinterpret_cast<const uint8_t*>(&record);
    bytes.insert(bytes.end(), from, from + sizeof record);
    ++records;
  }
};

void BM_Convert(benchmark::State& state) {
  Buffer buffer;
  CuptiApi api;
  api.GetNextRecord = NextRecord;
  api.GetCallbackName = [](cupti::CallbackDomain, uint32_t, const char** name) {
    *name = "cudaLaunchKernel_v7000";
    return cupti::Result::kSuccess;
  };
  ring::Segment segment;
  ring::Segment::Create({.ring_count = 1}, &segment);
  ring::ClientSegment client;
  client.Attach(segment.fd(), segment.bytes());
  Window window;
  window.Open(HostTime(0), HostTime::Max());
  StringIds ids;
  std::vector<std::byte> names(kKernelNameBytes);
  auto converter = std::make_unique<Converter>();
  converter->Begin(api, {.sizes = {.kernel = sizeof(cupti::Kernel10)}}, window, client.Writer(0),
                   {names.data(), names.size()}, ids);
  // Takes the best iteration of each, which is the cost without other load on the machine.
  double walk_ns = 1e9;
  double convert_ns = 1e9;
  for (auto _ : state) {
    auto start = std::chrono::steady_clock::now();
    cupti::Activity* record = nullptr;
    uint64_t kinds = 0;
    while (api.GetNextRecord(buffer.bytes.data(), buffer.bytes.size(), &record) == cupti::Result::kSuccess) {
      kinds += static_cast<uint64_t>(record->kind);
    }
    benchmark::DoNotOptimize(kinds);
    const std::chrono::duration<double, std::nano> walk = std::chrono::steady_clock::now() - start;
    walk_ns = std::min(walk_ns, walk.count() / static_cast<double>(buffer.records));

    client.ring(0).tail.store(client.ring(0).head.load());  // as if all records had been drained
    start = std::chrono::steady_clock::now();
    converter->Convert(buffer.bytes.data(), buffer.bytes.size());
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    state.SetIterationTime(took.count());
    convert_ns = std::min(convert_ns, took.count() * 1e9 / static_cast<double>(buffer.records));
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * buffer.records));
  state.counters["ns_per_record"] = convert_ns;
  state.counters["floor_ns_per_record"] = walk_ns;
  state.counters["ratio"] = convert_ns / walk_ns;
  state.counters["lost"] =
      static_cast<double>(segment.header()->lost[static_cast<size_t>(ring::LossReason::kRingFull)]
                                                [static_cast<size_t>(ring::RecordKind::kKernel)]);
  client.Detach();
}
BENCHMARK(BM_Convert)->Name("cupti_to_ring/kernel+api")->UseManualTime()->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace lockstep::client

BENCHMARK_MAIN();
