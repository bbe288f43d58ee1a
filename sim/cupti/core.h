// C interface through which lockstep-sim-rank or the simulated libcudart reports events to the simulated
// libcupti. It is private to sim/. If neither of the two is in the process, every CUPTI function behaves as
// the real library does without a driver (CUPTI_ERROR_UNKNOWN).
//
// Time stamps in records are CLOCK_REALTIME nanoseconds of the simulated host, as CUPTI reports them.
// `release` is the time at which a record may be delivered, in CLOCK_MONOTONIC nanoseconds of the real
// machine.
#ifndef LOCKSTEP_SIM_CUPTI_CORE_H_
#define LOCKSTEP_SIM_CUPTI_CORE_H_

#include <cstddef>
#include <cstdint>

#include "sim/cupti/cupti_settings.h"
#include "wire/foreign/cupti.h"

namespace lockstep::sim {

inline constexpr uint32_t kSimCoreVersion = 4;
inline constexpr uint32_t kSimContextId = 1;
inline constexpr size_t kMaxRecordBytes = 256;

struct SimDevice {
  uint32_t device;
  const char* name;  // must outlive the process's use of CUPTI
  const uint32_t* streams;
  size_t stream_count;
  uint32_t serial;  // makes the device's UUID; different on every rank
};

struct SimExternalId {
  foreign::cupti::ExternalCorrelationKind kind;
  uint64_t id;
};

enum class SimOutcome : uint32_t {
  kWritten = 0,      // it is in a buffer that the tool has received or will receive
  kDropped = 1,      // lost on request, or because the tool supplied no buffer
  kIncomplete = 2,   // a forced flush delivered it before it was complete
  kDroppedRead = 3,  // the tool read the dropped count; `count` is the value that it got
};

struct SimLedgerEntry {
  int64_t stamp_ns;  // reported start; for kDroppedRead, the time of the read
  foreign::cupti::ActivityKind kind;
  SimOutcome outcome;
  uint64_t count;
};

enum class Delivery : uint32_t { kDeliver = 0, kDrop = 1 };

// The API call that a host record belongs to; kInvalid means none. The record is written only if the tool
// still wants such calls when the call returns, because CUPTI writes it at that moment.
struct SimCall {
  foreign::cupti::CallbackDomain domain = foreign::cupti::CallbackDomain::kInvalid;
  uint32_t cbid = 0;
};

// The entry or the exit of an API call, for the tool's subscriber.
struct SimCallSite {
  foreign::cupti::CallbackDomain domain;
  uint32_t cbid;
  foreign::cupti::CallbackData data;
};

struct SimCore {
  uint32_t version;
  // Called on the rank's thread. attach() copies its argument, except the name.
  void (*attach)(const SimDevice* device);
  void (*detach)();
  // Returns whether the tool wants records of this kind, or of this API call, now.
  bool (*wants)(foreign::cupti::ActivityKind kind);
  bool (*wants_call)(foreign::cupti::CallbackDomain domain, uint32_t cbid);
  // Returns the calling thread's id in the form that the tool chose.
  uint32_t (*thread_id)();
  // Takes a device record whose time stamps are not known yet. Returns a ticket for complete(), never 0.
  uint64_t (*launch)(const void* record, size_t bytes);
  void (*complete)(uint64_t ticket, int64_t start_ns, int64_t end_ns, int64_t release, Delivery delivery);
  // Takes a complete host record. `stamp_ns` goes to the ledger.
  void (*record)(const void* record, size_t bytes, SimCall call, int64_t stamp_ns, int64_t release,
                 Delivery delivery);
  // Stores the external ids that the tool pushed on the calling thread: the innermost of each kind. Returns
  // their number.
  size_t (*external_ids)(SimExternalId* out, size_t capacity);
  // Writes every record whose release has passed into a buffer.
  void (*pump)(int64_t now);
  // Returns all entries so far. They are valid until the next call of any function.
  size_t (*ledger)(const SimLedgerEntry** entries);

  // Called on any thread. Adds a device, context or stream by its record. The tool receives the record now if
  // it wants it, and again at each request for existing objects. `handle` is the application's handle, or
  // null.
  void (*object)(const void* record, size_t bytes, const void* handle);
  void (*object_gone)(foreign::cupti::ActivityKind kind, uint32_t id);
  // Returns whether the tool wants a record of every event and stream query, even if the work was unfinished.
  bool (*all_sync_records)();
  // Returns whether the tool has used CUPTI. The real CUPTI initialises itself only at its first use.
  bool (*used)();
  const CuptiSettings* (*settings)();
  // Runs the subscriber's callback on the calling thread if the subscriber enabled this call.
  void (*call)(const SimCallSite* site);
};

// The library exports the function under this name. It returns null for a version that it does not support.
inline constexpr char kSimCoreSymbol[] = "lockstep_sim_core";
using SimCoreFn = const SimCore* (*)(uint32_t version);

// The simulated libcudart exports this structure. A libcupti without an attached rank looks for it in the
// loaded libcudart.so.13, as CUPTI looks for the driver. `attach` initialises the device as cuInit does and
// reports the existing objects to `core`. It keeps `core` until the process ends, and returns false if no
// device is available.
struct SimDeviceCore {
  uint32_t version;
  bool (*attach)(const SimCore* core);
};
inline constexpr char kSimDeviceSymbol[] = "lockstep_sim_device";
inline constexpr char kSimDeviceLibrary[] = "libcudart.so.13";
using SimDeviceFn = const SimDeviceCore* (*)(uint32_t version);

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_CUPTI_CORE_H_
