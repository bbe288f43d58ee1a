// The activities that this client has enabled in CUPTI, and the settings that it has changed there. It can
// undo them all, because other tools in the process use the same CUPTI afterwards.
//
// Only the agent's thread may use it.
#ifndef LOCKSTEP_CLIENT_CUPTI_ENABLED_ACTIVITIES_H_
#define LOCKSTEP_CLIENT_CUPTI_ENABLED_ACTIVITIES_H_

#include <cstdint>

#include "client/cupti/cupti_api.h"
#include "client/record/text.h"
#include "wire/foreign/cupti.h"

namespace lockstep::client {

class EnabledActivities {
 public:
  constexpr EnabledActivities() = default;

  // Sets the CUPTI to use. `api` must outlive this object.
  void Use(const CuptiApi& api, uint32_t version) {
    api_ = &api;
    version_ = version;
  }
  // Makes records name threads by the kernel's ids, if this CUPTI can.
  void UseSystemThreadIds();
  // Makes CUPTI take buffers that are filled with zeros, and not fill them itself. Returns false if it
  // cannot.
  bool GiveZeroedBuffers();
  // Enables the records that `activities` (ring::Activities) requests. Returns false with `why` if one of
  // them cannot be enabled; the others stay enabled. `refusal` is then CUPTI's answer, or kSuccess if this
  // CUPTI is only too old.
  bool Enable(uint32_t activities, foreign::cupti::Result* refusal, Sentence* why);
  // Makes CUPTI report all existing devices, contexts and streams, and each new one. The capture is valid
  // without them.
  void EnableObjects();
  // Undoes everything, the newest first.
  void UndoAll();

 private:
  enum class Undo : uint8_t { kDisable, kDriverApi, kThreadIdType, kSyncRecords, kZeroedBuffers };
  struct UndoStep {
    Undo what;
    uint32_t argument;
  };

  bool EnableKind(foreign::cupti::ActivityKind kind, foreign::cupti::Result* refusal, Sentence* why);
  void EnableOptional(foreign::cupti::ActivityKind kind);
  bool EnableMemory(foreign::cupti::Result* refusal, Sentence* why);
  void EnableDriverLaunches();
  void Remember(Undo what, uint32_t argument);

  const CuptiApi* api_ = nullptr;
  uint32_t version_ = 0;
  UndoStep undo_[32] = {};
  uint32_t undo_count_ = 0;
};

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_CUPTI_ENABLED_ACTIVITIES_H_
