// Fills Hello and Presence with the client's description of its process. The daemon trusts only the kernel's
// data; it uses the rest for names and order.
#ifndef LOCKSTEP_CLIENT_IDENTITY_H_
#define LOCKSTEP_CLIENT_IDENTITY_H_

#include <cstdint>

#include "wire/ring/handshake.h"

namespace lockstep::client {

enum class EntryKind : uint32_t { kCudaInjection = 1, kPreload = 2, kLinked = 3 };

// Fills all fields except cupti_version.
void FillHello(EntryKind entry, ring::Hello* hello);
void FillPresence(EntryKind entry, ring::Presence* presence);

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_IDENTITY_H_
