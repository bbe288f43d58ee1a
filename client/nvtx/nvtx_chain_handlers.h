// Handlers that call two NVTX tools: first the chained one, then ours. nvtx_chain.h describes what each
// receives.
//
// They are process-wide, because NVTX gives its handlers no user data. A slot's functions are written before
// a handler that reads them is installed, and they are never removed. Handlers run in the application on any
// thread. They take no lock and do not allocate.
#ifndef LOCKSTEP_CLIENT_NVTX_NVTX_CHAIN_HANDLERS_H_
#define LOCKSTEP_CLIENT_NVTX_NVTX_CHAIN_HANDLERS_H_

#include <atomic>
#include <cstdint>

#include "wire/foreign/nvtx.h"
#include "wire/foreign/nvtx_payload.h"

namespace lockstep::client {

inline constexpr uint32_t kPayloadSlots = 8;  // the slots that ours fills

template <uint32_t slots>
struct ChainedFunctions {
  std::atomic<foreign::nvtx::FunctionPointer> ours[slots] = {};
  std::atomic<foreign::nvtx::FunctionPointer> chained[slots] = {};
};
extern ChainedFunctions<foreign::nvtx::kCoreSlots> g_core;
extern ChainedFunctions<foreign::nvtx::kCore2Slots> g_core2;
extern ChainedFunctions<kPayloadSlots> g_payload;

// Returns the handler for a slot of the module; null: ours has none there.
foreign::nvtx::FunctionPointer ChainedCore(uint32_t slot);
foreign::nvtx::FunctionPointer ChainedCore2(uint32_t slot);
foreign::nvtx::FunctionPointer ChainedPayload(uint32_t slot);

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_NVTX_NVTX_CHAIN_HANDLERS_H_
