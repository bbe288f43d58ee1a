// A test fixture: a process with NCCL's plugin tables and its own source, and the daemon's side of its
// segment.
#ifndef LOCKSTEP_CLIENT_NCCL_NCCL_FIXTURE_H_
#define LOCKSTEP_CLIENT_NCCL_NCCL_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "client/nccl/nccl_plugin.h"
#include "client/nccl/nccl_source.h"
#include "tests/abi/support/daemon_end.h"
#include "tests/abi/support/fake_cupti.h"
#include "wire/ring/handshake.h"

namespace lockstep::client {

namespace nccl = foreign::nccl;

class NcclTest : public testing::Test {
 protected:
  NcclTest() : recorder_(flags_), memory_(ring::kMaxRings * (16u << 10)) {
    EXPECT_TRUE(recorder_.Init(nullptr));
    EXPECT_EQ(client_.Attach(daemon_.segment.fd(), daemon_.segment.bytes()), ring::AttachError::kNone);
    SetNcclSource(*source_, [] { ++init_count; });
    SetNcclChain(nullptr);
    source_->proxy().UseMemory({proxy_memory_.data(), proxy_memory_.size()});
    init_count = 0;
  }
  ~NcclTest() override {
    flags_.Close();
    client_.Detach();
  }

  void Begin(uint32_t activities = ring::kDefaultActivities) {
    window_.Open(HostTime(0), HostTime::Max());
    recorder_.Begin(++capture_, client_, {memory_.data(), memory_.size()}, ids_);
    flags_.nccl = capture_;
    api_ = cupti_.Api();
    source_->Begin(&api_, activities);
  }
  void End() {
    source_->End();
    RecorderTotals totals;
    EXPECT_TRUE(recorder_.End(kSystemTiming, &totals, [](ThreadSlot&) {}));
  }

  void* Init(uint64_t comm, const char* name = "world", int32_t ranks = 8, int32_t rank = 3) {
    void* context = nullptr;
    EXPECT_EQ(ncclProfiler_v5.init(&context, comm, &mask_, name, 2, ranks, rank, nullptr),
              nccl::Result::kSuccess);
    return context;
  }
  void* Start(void* context, uint64_t type, const nccl::EventDetail& detail = {}, void* parent = nullptr) {
    nccl::EventDescriptor event{type, parent, 3, detail};
    void* handle = &event;  // NCCL reuses this value if nothing is written
    EXPECT_EQ(ncclProfiler_v5.start_event(context, &handle, &event), nccl::Result::kSuccess);
    EXPECT_NE(handle, &event);
    return handle;
  }
  void Stop(void* handle) { EXPECT_EQ(ncclProfiler_v5.stop_event(handle), nccl::Result::kSuccess); }

  static nccl::EventDetail AllReduce(uint64_t sequence, size_t count) {
    nccl::EventDetail detail{};
    detail.coll = {sequence,       "AllReduce", nullptr, nullptr, count,    0,
                   "ncclBfloat16", 16,          8,       "RING",  "SIMPLE", nullptr};
    return detail;
  }
  static nccl::EventDetail Peer(const char* function, int32_t peer) {
    nccl::EventDetail detail{};
    detail.p2p = {function, nullptr, "ncclFloat32", 100, peer, 2, nullptr};
    return detail;
  }

  // Calls the plugin for one operation, as NCCL 2.28 does.
  void Collective(void* context, const nccl::EventDetail& detail, uint64_t type = nccl::kEventColl) {
    void* group_api = Start(context, nccl::kEventGroupApi);
    Stop(Start(context, nccl::kEventCollApi));
    void* launch = Start(context, nccl::kEventKernelLaunch);
    pushed_at_launch_ = cupti_.pushed;
    Stop(launch);
    void* group = Start(context, nccl::kEventGroup);
    Stop(Start(context, type, detail));
    Stop(group);
    Stop(group_api);
  }

  static inline int init_count = 0;
  RecordingFlags flags_;
  Recorder recorder_;
  Window window_;
  ActivityClock clock_;
  StringIds ids_;
  OperationLog log_{kSystemTiming};
  std::unique_ptr<NcclSource> source_ =
      std::make_unique<NcclSource>(flags_, recorder_, clock_, window_, log_);
  FakeCupti cupti_;
  CuptiApi api_;
  DaemonEnd daemon_;
  ring::ClientSegment client_;
  std::vector<std::byte> memory_;
  std::vector<std::byte> proxy_memory_ = std::vector<std::byte>(NcclProxy::MemoryBytes());
  uint64_t capture_ = 0;
  int32_t mask_ = -1;
  std::vector<uint64_t> pushed_at_launch_;
};

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_NCCL_NCCL_FIXTURE_H_
