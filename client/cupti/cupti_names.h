// The names of kernels, devices and CUDA functions in ring 0. Each is defined in the ring once per capture.
//
// CuptiSource ensures that one thread at a time uses it. It never allocates and takes no lock.
#ifndef LOCKSTEP_CLIENT_CUPTI_CUPTI_NAMES_H_
#define LOCKSTEP_CLIENT_CUPTI_CUPTI_NAMES_H_

#include <cstdint>

#include "client/cupti/cupti_api.h"
#include "client/record/arena.h"
#include "client/record/interner.h"
#include "wire/foreign/cupti.h"
#include "wire/ring/writer.h"

namespace lockstep::client {

class CuptiNames {
 public:
  constexpr CuptiNames() = default;

  // Forgets all names. `memory` holds the new ones.
  void Begin(const CuptiApi& api, Memory memory, StringIds& ids);
  // Returns the id of the text, defined in `ring`. Returns 0 for null, and if the ring is full.
  uint32_t TextOf(ring::RingWriter& ring, const char* name);
  // Returns the id of a CUDA function's name, defined in `ring`. Returns 0 if the name is unknown, and if the
  // ring is full.
  uint32_t FunctionName(ring::RingWriter& ring, foreign::cupti::CallbackDomain domain, uint32_t cbid);

 private:
  static constexpr uint32_t kPointerCache = 1024;
  static constexpr uint32_t kCallbackNames = 1024;

  struct CachedPointer {
    const char* pointer;
    Interner::Entry* entry;
  };

  const CuptiApi* api_ = nullptr;
  Interner names_;
  CachedPointer pointers_[kPointerCache] = {};
  Interner::Entry* functions_[2][kCallbackNames] = {};
};

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_CUPTI_CUPTI_NAMES_H_
