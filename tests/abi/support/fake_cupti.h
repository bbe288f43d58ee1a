// A fake CUPTI for tests of the client: a function table over one object. Tests add records themselves, on
// any thread.
#ifndef LOCKSTEP_TESTS_ABI_SUPPORT_FAKE_CUPTI_H_
#define LOCKSTEP_TESTS_ABI_SUPPORT_FAKE_CUPTI_H_

#include <time.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/read_clock.h"
#include "client/cupti/cupti_api.h"
#include "wire/foreign/cupti.h"

namespace lockstep::client {

// Only one object may exist at a time, because the table's functions have no other access to it. While the
// client's thread runs, tests use the members through Locked.
class FakeCupti {
 public:
  using Kind = foreign::cupti::ActivityKind;
  using Result = foreign::cupti::Result;

  FakeCupti() { g_fake = this; }
  ~FakeCupti() { g_fake = nullptr; }

  template <typename Fn>
  auto Locked(Fn fn) {
    std::lock_guard<std::mutex> lock(mutex_);
    return fn(*this);
  }

  CuptiApi Api() const {
    CuptiApi api;
    api.GetVersion = [](uint32_t* v) { return g_fake->Ok("cuptiGetVersion", [&] { *v = g_fake->version; }); };
    api.GetTimestamp = [](uint64_t* ns) {
      return g_fake->Ok("cuptiGetTimestamp", [&] {
        *ns = g_fake->ticks ? ReadTicks() : g_fake->now != 0 ? g_fake->now : RealtimeNs();
      });
    };
    api.RegisterCallbacks = [](foreign::cupti::BufferRequested requested,
                               foreign::cupti::BufferCompleted completed) {
      return g_fake->Ok("cuptiActivityRegisterCallbacks", [&] {
        g_fake->requested_ = requested;
        g_fake->completed_ = completed;
      });
    };
    api.Enable = [](Kind kind) {
      if (g_fake->Locked([&](FakeCupti& f) { return f.refused_kinds.count(kind) != 0; }))
        return Result::kInvalidKind;
      return g_fake->Ok("cuptiActivityEnable", [&] { g_fake->enabled.insert(kind); });
    };
    api.Disable = [](Kind kind) {
      return g_fake->Ok("cuptiActivityDisable", [&] { g_fake->enabled.erase(kind); });
    };
    api.FlushAll = [](uint32_t flags) { return g_fake->FlushAll(flags); };
    api.GetNextRecord = [](uint8_t* buffer, size_t valid, foreign::cupti::Activity** record) {
      return g_fake->GetNextRecord(buffer, valid, record);
    };
    api.GetNumDroppedRecords = [](foreign::cupti::Context, uint32_t, size_t* dropped) {
      return g_fake->Ok("cuptiActivityGetNumDroppedRecords",
                        [&] { *dropped = std::exchange(g_fake->dropped, 0); });
    };
    api.GetResultString = [](Result result, const char** text) {
      *text = result == Result::kUnknown ? "CUPTI_ERROR_UNKNOWN" : "CUPTI_ERROR";
      return Result::kSuccess;
    };
    api.GetCallbackName = [](foreign::cupti::CallbackDomain domain, uint32_t cbid, const char** name) {
      static std::map<uint32_t, const char*> names = {{211, "cudaLaunchKernel_v7000"},
                                                      {225, "cudaMemcpyAsync_ptsz_v7000"},
                                                      {165, "cudaDeviceSynchronize_v3020"}};
      if (domain == foreign::cupti::CallbackDomain::kDriverApi) {
        *name = "cuLaunchKernelEx";
        return Result::kSuccess;
      }
      if (names.count(cbid) == 0) return Result::kInvalidParameter;
      *name = names[cbid];
      return Result::kSuccess;
    };
    api.SetThreadIdType = [](foreign::cupti::ThreadIdType type) {
      return g_fake->Ok("cuptiSetThreadIdType", [&] { g_fake->thread_id_type = type; });
    };
    api.GetThreadIdType = [](foreign::cupti::ThreadIdType* type) {
      *type = g_fake->Locked([](FakeCupti& f) { return f.thread_id_type; });
      return Result::kSuccess;
    };
    api.GetAttribute = [](foreign::cupti::Attribute attribute, size_t* bytes, void* value) {
      if (attribute != foreign::cupti::Attribute::kZeroedOutActivityBuffer || *bytes != 1)
        return Result::kInvalidParameter;
      *static_cast<uint8_t*>(value) = g_fake->Locked([](FakeCupti& f) { return f.zeroed_out; });
      return Result::kSuccess;
    };
    api.SetAttribute = [](foreign::cupti::Attribute attribute, size_t* bytes, void* value) {
      if (attribute != foreign::cupti::Attribute::kZeroedOutActivityBuffer || *bytes != 1)
        return Result::kInvalidParameter;
      return g_fake->Ok("cuptiActivitySetAttribute",
                        [&] { g_fake->zeroed_out = *static_cast<const uint8_t*>(value); });
    };
    api.PushExternalCorrelationId = [](foreign::cupti::ExternalCorrelationKind, uint64_t id) {
      return g_fake->Ok("cuptiActivityPushExternalCorrelationId", [&] { g_fake->pushed.push_back(id); });
    };
    api.PopExternalCorrelationId = [](foreign::cupti::ExternalCorrelationKind, uint64_t* id) {
      if (g_fake->pushed.empty()) return Result::kInvalidOperation;
      return g_fake->Ok("cuptiActivityPopExternalCorrelationId", [&] {
        *id = g_fake->pushed.back();
        g_fake->pushed.pop_back();
      });
    };
    api.EnableRuntimeApi = [](uint32_t cbid, uint8_t enable) {
      return g_fake->Ok("cuptiActivityEnableRuntimeApi", [&] {
        if (!enable) g_fake->runtime_off.insert(cbid);
      });
    };
    api.EnableDriverApi = [](uint32_t cbid, uint8_t enable) {
      return g_fake->Ok("cuptiActivityEnableDriverApi", [&] {
        if (enable)
          g_fake->driver_on.insert(cbid);
        else
          g_fake->driver_on.erase(cbid);
      });
    };
    api.EnableAllSyncRecords = [](uint8_t enable) {
      return g_fake->Ok("cuptiActivityEnableAllSyncRecords", [&] { g_fake->all_sync_records = enable != 0; });
    };
    api.EnableAndDump = [](Kind kind) {
      const Result result = g_fake->Ok("cuptiActivityEnableAndDump", [&] { g_fake->enabled.insert(kind); });
      if (result != Result::kSuccess) return result;
      for (const std::vector<uint8_t>& object :
           g_fake->Locked([kind](FakeCupti& f) { return f.objects[kind]; })) {
        g_fake->EmitBytes(object.data(), object.size());
      }
      return result;
    };
    if (!can_dump) api.EnableAndDump = nullptr;
    api.Subscribe = [](void** subscriber, foreign::cupti::CallbackFn, void*,
                       foreign::cupti::SubscriberParams* params) {
      return g_fake->Locked([&](FakeCupti& f) {
        if (f.holder.empty()) {
          *subscriber = &f;
          ++f.subscribed;
          return Result::kSuccess;
        }
        const std::string text = foreign::cupti::kSubscriberPrefix + f.holder;
        std::strncpy(params->holder, text.c_str(), params->holder_bytes - 1);
        return Result::kMultipleSubscribersNotSupported;
      });
    };
    api.Unsubscribe = [](void*) { return g_fake->Ok("cuptiUnsubscribe", [&] { --g_fake->subscribed; }); };
    return api;
  }

  bool Enabled(Kind kind) {
    return Locked([kind](FakeCupti& f) { return f.enabled.count(kind) != 0; });
  }
  bool NothingEnabled() {
    return Locked([](FakeCupti& f) { return f.enabled.empty() && f.driver_on.empty(); });
  }

  // Writes a record to the current buffer. Returns false if the client supplied no buffer.
  template <typename Record>
  bool Emit(const Record& record) {
    return EmitBytes(&record, sizeof record);
  }
  // Until Complete(), a flush that is not forced returns no buffers.
  void Withhold() { withheld_ = true; }
  void Complete() { withheld_ = false; }
  // Returns the current buffer to the client on the calling thread.
  void GiveBack() {
    Buffer buffer;
    {
      std::lock_guard<std::mutex> writing(writing_);
      buffer = std::exchange(current_, {});
    }
    if (buffer.data != nullptr) ReturnBuffer(buffer.data, buffer.bytes, buffer.used);
  }
  // Requests a buffer from the client, as an application thread would.
  uint8_t* Request(size_t* bytes) {
    uint8_t* data = nullptr;
    size_t most = 0;
    const auto requested = Locked([](FakeCupti& f) { return f.requested_; });
    if (requested != nullptr) requested(&data, bytes, &most);
    return data;
  }
  void ReturnBuffer(uint8_t* data, size_t bytes, size_t used) {
    Locked([](FakeCupti& f) { return f.completed_; })(nullptr, 0, data, bytes, used);
  }

  // ---- settings and results of a test ----
  uint32_t version = foreign::cupti::kVersion_13_0U1;
  uint64_t now = 0;    // 0 means the host's CLOCK_REALTIME
  bool ticks = false;  // stamps are the processor's counter, as after torch.profiler
  size_t dropped = 0;
  std::string holder;  // name of the current subscriber; empty means none
  int subscribed = 0;
  std::set<Kind> refused_kinds;
  bool can_dump = true;                // false: a version without cuptiActivityEnableAndDump
  std::map<std::string, Result> fail;  // by function
  std::map<std::string, int> calls;
  std::set<Kind> enabled;
  std::set<uint32_t> driver_on;
  std::set<uint32_t> runtime_off;
  bool all_sync_records = true;
  uint8_t zeroed_out = 0;  // ZEROED_OUT_ACTIVITY_BUFFER
  foreign::cupti::ThreadIdType thread_id_type = foreign::cupti::ThreadIdType::kDefault;
  std::vector<uint64_t> pushed;
  std::map<Kind, size_t> sizes = {{Kind::kMemcpy, 96},          {Kind::kMemset, 88},
                                  {Kind::kKernel, 216},         {Kind::kDriver, 40},
                                  {Kind::kRuntime, 40},         {Kind::kDevice, 184},
                                  {Kind::kContext, 32},         {Kind::kConcurrentKernel, 216},
                                  {Kind::kOverhead, 56},        {Kind::kMemcpyPeer, 96},
                                  {Kind::kCudaEvent, 56},       {Kind::kStream, 24},
                                  {Kind::kSynchronization, 56}, {Kind::kExternalCorrelation, 24},
                                  {Kind::kMemory, 128},         {Kind::kGraphTrace, 56}};
  std::map<Kind, std::vector<std::vector<uint8_t>>> objects;  // records of the existing objects

  template <typename Record>
  void AddObject(const Record& record) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(&record);
    Locked([&](FakeCupti& f) { f.objects[record.kind].emplace_back(bytes, bytes + sizeof record); });
  }

 private:
  struct Buffer {
    uint8_t* data = nullptr;
    size_t bytes = 0;
    size_t used = 0;
  };

  static uint64_t RealtimeNs();

  template <typename Fn>
  Result Ok(const char* function, Fn fn) {
    std::lock_guard<std::mutex> lock(mutex_);
    ++calls[function];
    if (fail.count(function)) return fail[function];
    fn();
    return Result::kSuccess;
  }

  Result FlushAll(uint32_t flags) {
    const Result result = Ok("cuptiActivityFlushAll", [] {});
    if (result == Result::kSuccess && (!withheld_ || flags != 0)) GiveBack();
    return result;
  }

  Result GetNextRecord(uint8_t* buffer, size_t valid, foreign::cupti::Activity** record) {
    size_t at = 0;
    if (*record != nullptr) {
      at = static_cast<size_t>(reinterpret_cast<uint8_t*>(*record) - buffer) + sizes[(*record)->kind];
    }
    if (at >= valid) return Result::kMaxLimitReached;
    auto* next = reinterpret_cast<foreign::cupti::Activity*>(buffer + at);
    const auto known = sizes.find(next->kind);
    if (known == sizes.end() || at + known->second > valid) return Result::kInvalidKind;
    *record = next;
    return Result::kSuccess;
  }

  bool EmitBytes(const void* record, size_t bytes) {
    foreign::cupti::Activity head;
    std::memcpy(&head, record, sizeof head);
    bytes = sizes[head.kind] < bytes ? sizes[head.kind] : bytes;
    std::lock_guard<std::mutex> writing(writing_);
    if (current_.data == nullptr) {
      current_.data = Request(&current_.bytes);
      current_.used = 0;
    }
    if (current_.data == nullptr || current_.used + bytes > current_.bytes) {
      Locked([](FakeCupti& f) { return ++f.dropped; });
      return false;
    }
    std::memcpy(current_.data + current_.used, record, bytes);
    current_.used += bytes;
    return true;
  }

  static inline FakeCupti* g_fake = nullptr;
  std::mutex mutex_;
  std::mutex writing_;  // guards the current buffer; taken before mutex_
  foreign::cupti::BufferRequested requested_ = nullptr;
  foreign::cupti::BufferCompleted completed_ = nullptr;
  Buffer current_;
  std::atomic<bool> withheld_{false};
};

inline uint64_t FakeCupti::RealtimeNs() {
  timespec t;
  ::clock_gettime(CLOCK_REALTIME, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
}

// ---- records with the fields that tests need ----

inline foreign::cupti::Kernel10 MakeKernel(int64_t start, int64_t end, uint32_t correlation,
                                           const char* name = "gemm", uint32_t stream = 7) {
  foreign::cupti::Kernel10 r{};
  r.kind = foreign::cupti::ActivityKind::kConcurrentKernel;
  r.start = static_cast<uint64_t>(start);
  r.end = static_cast<uint64_t>(end);
  r.correlation_id = correlation;
  r.name = name;
  r.stream_id = stream;
  r.grid_x = r.grid_y = r.grid_z = 1;
  r.block_x = 512;
  r.block_y = r.block_z = 1;
  return r;
}

inline foreign::cupti::Api MakeApi(
    int64_t start, int64_t end, uint32_t correlation, uint32_t cbid = 211,
    foreign::cupti::ActivityKind kind = foreign::cupti::ActivityKind::kRuntime) {
  foreign::cupti::Api r{};
  r.kind = kind;
  r.cbid = cbid;
  r.start = static_cast<uint64_t>(start);
  r.end = static_cast<uint64_t>(end);
  r.thread_id = 100;
  r.correlation_id = correlation;
  return r;
}

inline foreign::cupti::ExternalCorrelation MakeExternal(uint64_t external, uint32_t correlation) {
  foreign::cupti::ExternalCorrelation r{};
  r.kind = foreign::cupti::ActivityKind::kExternalCorrelation;
  r.external_kind = foreign::cupti::ExternalCorrelationKind::kCustom2;
  r.external_id = external;
  r.correlation_id = correlation;
  return r;
}

inline foreign::cupti::Device5 MakeDevice(uint32_t id, const char* name = "NVIDIA H100") {
  foreign::cupti::Device5 r{};
  r.kind = foreign::cupti::ActivityKind::kDevice;
  r.id = id;
  r.name = name;
  r.multiprocessors = 132;
  r.compute_major = 9;
  r.is_cuda_visible = 1;
  return r;
}

inline foreign::cupti::Context3 MakeContext(uint32_t context, uint32_t device) {
  foreign::cupti::Context3 r{};
  r.kind = foreign::cupti::ActivityKind::kContext;
  r.context_id = context;
  r.device_id = device;
  r.compute_api_kind = 1;
  r.null_stream_id = 7;
  return r;
}

inline foreign::cupti::Stream MakeStream(uint32_t context, uint32_t stream, int32_t priority = 0) {
  foreign::cupti::Stream r{};
  r.kind = foreign::cupti::ActivityKind::kStream;
  r.context_id = context;
  r.stream_id = stream;
  r.priority = static_cast<uint32_t>(priority);
  r.flag = foreign::cupti::StreamFlag::kNonBlocking;
  return r;
}

inline foreign::cupti::Memory4 MakeMemory(int64_t time, foreign::cupti::MemoryOperation operation,
                                          uint64_t address, uint64_t bytes) {
  foreign::cupti::Memory4 r{};
  r.kind = foreign::cupti::ActivityKind::kMemory;
  r.operation = operation;
  r.memory_kind = static_cast<uint32_t>(foreign::cupti::MemoryKind::kDevice);
  r.timestamp = static_cast<uint64_t>(time);
  r.address = address;
  r.bytes = bytes;
  return r;
}

}  // namespace lockstep::client

#endif  // LOCKSTEP_TESTS_ABI_SUPPORT_FAKE_CUPTI_H_
