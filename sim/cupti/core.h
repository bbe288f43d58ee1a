// What the simulated rank or device tells the simulated CUPTI: a C interface between lockstep-sim-rank, or
// the simulated libcudart, and the simulated libcupti. Private to sim/; nobody else may call it. Without
// either every CUPTI function behaves as the real library does where no driver is (CUPTI_ERROR_UNKNOWN).
//
// Stamps in records are what CUPTI reports: CLOCK_REALTIME nanoseconds of the simulated host. `release` is
// when the wall clock has passed them: CLOCK_MONOTONIC nanoseconds of the real machine.
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
  uint32_t serial;  // told apart from those of all other ranks by it: its UUID
};

struct SimExternalId {
  foreign::cupti::ExternalCorrelationKind kind;
  uint64_t id;
};

enum class SimOutcome : uint32_t {
  kWritten = 0,      // stands in a buffer that the tool was or will be given
  kDropped = 1,      // made, but lost: on request, or because the tool gave no buffer
  kIncomplete = 2,   // a forced flush gave it out before it was complete
  kDroppedRead = 3,  // the tool asked for the dropped count; `count` is what it was told
};

struct SimLedgerEntry {
  int64_t stamp_ns;  // start as reported; kDroppedRead: when
  foreign::cupti::ActivityKind kind;
  SimOutcome outcome;
  uint64_t count;
};

enum class Keep : uint32_t { kDeliver = 0, kDrop = 1 };

// The call that a host record tells of. It is only made if the tool still wants such calls when the call
// returns, as in CUPTI, which writes it then. kInvalid: no call.
struct SimCall {
  foreign::cupti::CallbackDomain domain = foreign::cupti::CallbackDomain::kInvalid;
  uint32_t cbid = 0;
};

// One end of an API call, for the tool's subscriber.
struct SimCallSite {
  foreign::cupti::CallbackDomain domain;
  uint32_t cbid;
  foreign::cupti::CallbackData data;
};

struct SimCore {
  uint32_t version;
  // From the rank's thread. attach() copies what it is given, except the name.
  void (*attach)(const SimDevice* device);
  void (*detach)();
  // Does the tool want records of this kind now, or of this API call?
  bool (*wants)(foreign::cupti::ActivityKind kind);
  bool (*wants_call)(foreign::cupti::CallbackDomain domain, uint32_t cbid);
  // The calling thread's id in the form that the tool chose.
  uint32_t (*thread_id)();
  // A device record whose stamps are not known yet. The ticket is never 0.
  uint64_t (*launch)(const void* record, size_t bytes);
  void (*complete)(uint64_t ticket, int64_t start_ns, int64_t end_ns, int64_t release, Keep keep);
  // A whole record of the host. `stamp_ns` goes to the ledger.
  void (*record)(const void* record, size_t bytes, SimCall call, int64_t stamp_ns, int64_t release,
                 Keep keep);
  // What the tool has pushed on the calling thread, innermost of each kind. Returns how many were stored.
  size_t (*external_ids)(SimExternalId* out, size_t capacity);
  // Puts every record whose release has passed into buffers.
  void (*pump)(int64_t now);
  // All entries so far; valid until the next call of any function.
  size_t (*ledger)(const SimLedgerEntry** entries);

  // From any thread. A device, context or stream (its record) that exists from now on: reported now if the
  // tool wants it, and again whenever it asks what there is. `handle` is the application's word for it, null
  // if it has none.
  void (*object)(const void* record, size_t bytes, const void* handle);
  void (*object_gone)(foreign::cupti::ActivityKind kind, uint32_t id);
  // Does the tool want a record of every event and stream query, also of one that found work unfinished?
  bool (*all_sync_records)();
  // Has the tool used CUPTI? Before that the real one has not initialised itself.
  bool (*used)();
  const CuptiKnobs* (*knobs)();
  // Runs the subscriber's callback on the calling thread, if there is one for this call.
  void (*call)(const SimCallSite* site);
};

// Exported by the library under this name; null when it does not speak that version.
inline constexpr char kSimCoreSymbol[] = "lockstep_sim_core";
using SimCoreFn = const SimCore* (*)(uint32_t version);

// The simulated libcudart exports this one, and a libcupti that nobody has attached looks for it in the
// loaded libcudart.so.13, as CUPTI finds the driver. `attach` initialises the device as cuInit does, tells
// `core` what exists, and keeps it for the life of the process; false: no device can be had.
struct SimDeviceCore {
  uint32_t version;
  bool (*attach)(const SimCore* core);
};
inline constexpr char kSimDeviceSymbol[] = "lockstep_sim_device";
inline constexpr char kSimDeviceLibrary[] = "libcudart.so.13";
using SimDeviceFn = const SimDeviceCore* (*)(uint32_t version);

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_CUPTI_CORE_H_
