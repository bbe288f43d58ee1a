// Measures the index of a store with many captures.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "aggregator/site/site.h"
#include "aggregator/site/site_fixture.h"

namespace lockstep::aggregator {
namespace {
constexpr char kToken[] = "0123456789abcdef0123456789abcdef";

std::string IdOf(int i) { return absl::StrFormat("20260301-%06d-0a1b2c", i); }

HttpRequest IndexRequest() {
  HttpRequest request;
  request.path = "/api/index.json";
  request.host = "localhost";
  request.authorization = std::string("Bearer ") + kToken;
  return request;
}

std::string IndexOf(Site& site) {
  HttpResponse response = site.Answer(IndexRequest());
  if (response.status != 200) std::abort();
  return std::move(response.body);
}

struct Store {
  explicit Store(int captures) {
    for (int i = 0; i < captures; ++i) folder.Add(IdOf(i));
    options.captures.folder = folder.path();
  }
  CapturesFolder folder;
  aggregator::HubOptions options;
  aggregator::SystemJobClock clock;
  SystemClock audit_clock;
  AuditLog audit{{.program = "bench", .user_name = nullptr}, nullptr, audit_clock};
};

// Time of a request once all captures are known.
void BM_Index(benchmark::State& state) {
  Store store(static_cast<int>(state.range(0)));
  const aggregator::Hub hub(store.options, store.clock);
  const HttpCallers callers(kToken);
  Site site({.program = "bench", .listen = {}}, hub, callers.all(),
            SignIn(std::make_shared<SystemClock>(), SignIn::Port::kPlain), store.audit, &aggregator::MonoNow);
  size_t bytes = 0;
  // The first requests read the stored captures, 100 ms at a time.
  while (IndexOf(site).find("\"unread\": 0") == std::string::npos) {
  }
  for (auto _ : state) {
    bytes = IndexOf(site).size();
    benchmark::DoNotOptimize(bytes);
  }
  state.counters["bytes"] = static_cast<double>(bytes);
}
BENCHMARK(BM_Index)->Arg(100)->Arg(1000)->Unit(benchmark::kMillisecond);

// Time to read the files of a store for the first time.
void BM_FirstLook(benchmark::State& state) {
  Store store(static_cast<int>(state.range(0)));
  for (auto _ : state) {
    KeptCaptures kept(store.folder.path(), &aggregator::MonoNow);
    kept.Refresh({}, Nanos::Seconds(60));
    benchmark::DoNotOptimize(kept.rows().size());
  }
}
BENCHMARK(BM_FirstLook)->Arg(100)->Arg(1000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace lockstep::aggregator

BENCHMARK_MAIN();
