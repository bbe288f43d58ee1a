// Measures what TLS costs over loopback, beside plaintext in the same run: a connection with its first call,
// a call on an existing connection, and the bytes of a stream. "vs_plain" is the time relative to plaintext;
// "cpu_vs_plain" is the processor time of both ends relative to it.
#include <benchmark/benchmark.h>
#include <grpcpp/grpcpp.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "base/read_clock.h"
#include "base/rpc/channel.h"
#include "base/rpc/connection_gate.h"
#include "base/rpc/server.h"
#include "base/tls/tls_fixture.h"
#include "lockstep/v1/control.grpc.pb.h"

namespace lockstep::aggregator {
namespace {

using rpc::Security;

constexpr char kToken[] = "0123456789abcdef0123456789abcdef";
constexpr size_t kChunkBytes = 256 << 10;  // as the aggregator sends records
constexpr int kChunks = 256;

// Streams the same bytes to each caller.
class Records final : public v1::Control::Service {
 public:
  grpc::Status Status(grpc::ServerContext*, const v1::StatusRequest*, v1::StatusReply*) override {
    return grpc::Status::OK;
  }
  grpc::Status Fetch(grpc::ServerContext*, const v1::FetchRequest*,
                     grpc::ServerWriter<v1::FetchChunk>* writer) override {
    v1::FetchChunk chunk;
    chunk.set_data(std::string(kChunkBytes, 'r'));
    for (int i = 0; i < kChunks; ++i) writer->Write(chunk);
    return grpc::Status::OK;
  }
};

// A server and a client of one protection.
class Pair {
 public:
  explicit Pair(Security::Kind kind) {
    char pattern[] = "/tmp/lockstep-security-bench-XXXXXX";
    root_ = mkdtemp(pattern);
    rpc::SecuritySettings server, client;
    if (kind == Security::Kind::kCertificates) {
      const tls::Authority authority = *tls::Authority::Make(ReadRealtime());
      server.tls_dir = root_ + "/server";
      client.tls_dir = root_ + "/client";
      tls::WriteTlsFolder(server.tls_dir, authority, tls::Identity{tls::Holder::kAggregator, ""},
                          ReadRealtime());
      tls::WriteTlsFolder(client.tls_dir, authority, tls::Identity{tls::Holder::kNode, "n1"}, ReadRealtime());
    } else if (kind == Security::Kind::kToken) {
      server.token = client.token = *rpc::Token::FromText(kToken);
    } else {
      server.plaintext = client.plaintext = rpc::SecuritySettings::Plaintext::kYes;
    }
    const auto clock = std::make_shared<SystemClock>();
    server_security_ = *Security::ForServer(server, clock, &LogNothing);
    client_security_ = *Security::ForClient(client, tls::Holder::kNode, clock, &LogNothing);
    grpc::ServerBuilder builder;
    rpc::Configure(builder, {});
    gate_.Attach(builder, server_security_.get());
    port_ = *gate_.Listen(*rpc::Address::Parse("127.0.0.1:0"));
    builder.RegisterService(&records_);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || !gate_.Start().ok()) std::abort();
    Reconnect();
  }
  ~Pair() {
    gate_.Stop();
    server_->Shutdown();
    std::filesystem::remove_all(root_);
  }

  void Reconnect() {
    stub_ = v1::Control::NewStub(*rpc::Connect("127.0.0.1:" + std::to_string(port_), client_security_.get()));
  }
  void Call() {
    grpc::ClientContext context;
    rpc::Prepare(context, rpc::Token(), Nanos::Seconds(10));
    v1::StatusReply reply;
    if (!stub_->Status(&context, {}, &reply).ok()) std::abort();
  }
  void Fetch() {
    grpc::ClientContext context;
    rpc::Prepare(context, rpc::Token(), Nanos::Seconds(60));
    const auto reader = stub_->Fetch(&context, {});
    v1::FetchChunk chunk;
    int chunks = 0;
    while (reader->Read(&chunk)) ++chunks;
    if (chunks != kChunks || !reader->Finish().ok()) std::abort();
  }

 private:
  std::string root_;
  Records records_;
  rpc::ConnectionGate gate_;
  std::shared_ptr<Security> server_security_, client_security_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::Control::Stub> stub_;
  int port_ = 0;
};

struct Cost {
  double seconds = 0;
  double cpu_seconds = 0;
};

template <typename Body>
Cost Measure(const Body& body) {
  const int64_t at = ReadClockNs(CLOCK_MONOTONIC), cpu = ReadClockNs(CLOCK_PROCESS_CPUTIME_ID);
  body();
  return {1e-9 * static_cast<double>(ReadClockNs(CLOCK_MONOTONIC) - at),
          1e-9 * static_cast<double>(ReadClockNs(CLOCK_PROCESS_CPUTIME_ID) - cpu)};
}

// Alternates between the protection and plaintext, so that both see the same machine.
template <typename Body>
void Compare(benchmark::State& state, double bytes, const Body& body) {
  rpc::PrepareProcess();
  Pair measured(static_cast<Security::Kind>(state.range(0)));
  Pair plain(Security::Kind::kPlaintext);
  body(measured);
  body(plain);
  Cost sum, floor;
  for (auto _ : state) {
    const Cost one = Measure([&] { body(measured); });
    state.PauseTiming();
    const Cost other = Measure([&] { body(plain); });
    state.ResumeTiming();
    sum.seconds += one.seconds;
    sum.cpu_seconds += one.cpu_seconds;
    floor.seconds += other.seconds;
    floor.cpu_seconds += other.cpu_seconds;
  }
  state.SetLabel(rpc::ProtectionName(static_cast<Security::Kind>(state.range(0))));
  state.counters["vs_plain"] = sum.seconds / floor.seconds;
  state.counters["cpu_vs_plain"] = sum.cpu_seconds / floor.cpu_seconds;
  if (bytes > 0)
    state.counters["MB_per_s"] = static_cast<double>(state.iterations()) * bytes / 1e6 / sum.seconds;
}

void BM_Connect(benchmark::State& state) {
  Compare(state, 0, [](Pair& pair) {
    pair.Reconnect();
    pair.Call();
  });
}
void BM_Call(benchmark::State& state) {
  Compare(state, 0, [](Pair& pair) { pair.Call(); });
}
void BM_Fetch(benchmark::State& state) {
  Compare(state, static_cast<double>(kChunkBytes) * kChunks, [](Pair& pair) { pair.Fetch(); });
}

void Protections(benchmark::internal::Benchmark* benchmark) {
  for (const Security::Kind kind :
       {Security::Kind::kPlaintext, Security::Kind::kToken, Security::Kind::kCertificates})
    benchmark->Arg(static_cast<int>(kind));
}

BENCHMARK(BM_Connect)->Apply(Protections)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(BM_Call)->Apply(Protections)->Unit(benchmark::kMicrosecond)->UseRealTime();
BENCHMARK(BM_Fetch)->Apply(Protections)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace lockstep::aggregator

BENCHMARK_MAIN();
