// What the client says about its process in Hello. The daemon believes only what the kernel tells it; the
// rest names and sorts.
#ifndef LOCKSTEP_CLIENT_IDENTITY_H_
#define LOCKSTEP_CLIENT_IDENTITY_H_

#include <cstdint>

#include "wire/ring/handshake.h"

namespace lockstep::client {

enum class EntryKind : uint32_t { kCudaInjection = 1, kPreload = 2, kLinked = 3 };

// Everything but has_segment and cupti_version.
void FillHello(EntryKind entry, ring::Hello* hello);

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_IDENTITY_H_
