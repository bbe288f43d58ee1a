// Describes the simulated device and makes its CUPTI record, for the simulated libcudart and for simulated
// ranks.
#ifndef LOCKSTEP_SIM_CUPTI_DEVICE_RECORD_H_
#define LOCKSTEP_SIM_CUPTI_DEVICE_RECORD_H_

#include <cstddef>
#include <cstdint>

#include "wire/foreign/cupti_records.h"

namespace lockstep::sim {

inline constexpr int kMultiprocessors = 132, kThreadsPerMultiprocessor = 2048;
inline constexpr size_t kDeviceMemoryBytes = size_t{80} << 30;
inline constexpr uint32_t kNullStreamId = 7;  // CUPTI's number for the default stream of every context

// Sets 16 bytes that look as random as a real UUID, different for each `serial`. A reader must not take the
// number of a GPU for it.
template <typename Byte>
void SetDeviceUuid(uint32_t serial, Byte* uuid) {
  uint64_t mixed = serial;
  for (size_t byte = 0; byte < 16; ++byte) {
    if (byte % 8 == 0) mixed = mixed * 0x9E37'79B9'7F4A'7C15 + 0x1234'5678'9ABC'DEF1;
    uuid[byte] = static_cast<Byte>(mixed >> 8 * (byte % 8));
  }
}

// `name` must outlive the record. `serial` makes the device's UUID.
inline foreign::cupti::Device5 DeviceRecord(uint32_t id, const char* name, uint32_t serial) {
  foreign::cupti::Device5 r{};
  r.kind = foreign::cupti::ActivityKind::kDevice;
  r.id = id;
  r.name = name;
  r.memory_bandwidth = 3'352'320'000;
  r.memory_bytes = kDeviceMemoryBytes;
  r.l2_cache_bytes = 50u << 20;
  r.threads_per_warp = 32;
  r.core_clock_khz = 1'980'000;
  r.copy_engines = 3;
  r.multiprocessors = kMultiprocessors;
  r.max_warps_per_multiprocessor = kThreadsPerMultiprocessor / 32;
  r.max_blocks_per_multiprocessor = 32;
  r.max_shared_memory_per_multiprocessor = 233472;
  r.max_registers_per_multiprocessor = 65536;
  r.max_threads_per_block = 1024;
  r.compute_major = 9;
  r.ecc_enabled = 1;
  SetDeviceUuid(serial, r.uuid);
  r.is_cuda_visible = 1;
  return r;
}

inline foreign::cupti::Context3 ContextRecord(uint32_t context, uint32_t device) {
  foreign::cupti::Context3 r{};
  r.kind = foreign::cupti::ActivityKind::kContext;
  r.context_id = context;
  r.device_id = device;
  r.compute_api_kind = static_cast<uint16_t>(foreign::cupti::ComputeApi::kCuda);
  r.null_stream_id = kNullStreamId;
  r.multiprocessors = kMultiprocessors;
  return r;
}

inline foreign::cupti::Stream StreamRecord(uint32_t context, uint32_t stream, int priority,
                                           foreign::cupti::StreamFlag flag) {
  foreign::cupti::Stream r{};
  r.kind = foreign::cupti::ActivityKind::kStream;
  r.context_id = context;
  r.stream_id = stream;
  r.priority = static_cast<uint32_t>(priority);
  r.flag = flag;
  return r;
}

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_CUPTI_DEVICE_RECORD_H_
