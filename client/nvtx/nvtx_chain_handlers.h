// The handlers that call two NVTX tools, the other's first and then ours: nvtx_chain.h says what each sees.
//
// Process-wide, since NVTX hands its handlers nothing of the tool's. A slot's functions are written before a
// handler that reads them is installed, and are never taken back. Handlers run in the application, on any
// thread; they take no lock and allocate nothing.
#ifndef LOCKSTEP_CLIENT_NVTX_CHAIN_HANDLERS_H_
#define LOCKSTEP_CLIENT_NVTX_CHAIN_HANDLERS_H_

#include <atomic>
#include <cstdint>

#include "wire/foreign/nvtx.h"
#include "wire/foreign/nvtx_payload.h"

namespace lockstep::client {

inline constexpr uint32_t kPayloadSlots = 8;  // those that ours fills

template <uint32_t slots>
struct ChainedFunctions {
  std::atomic<foreign::nvtx::FunctionPointer> ours[slots] = {};
  std::atomic<foreign::nvtx::FunctionPointer> theirs[slots] = {};
};
extern ChainedFunctions<foreign::nvtx::kCoreSlots> g_core;
extern ChainedFunctions<foreign::nvtx::kCore2Slots> g_core2;
extern ChainedFunctions<kPayloadSlots> g_payload;

// The handler for a slot of the module's; null: ours has none there.
foreign::nvtx::FunctionPointer ChainedCore(uint32_t slot);
foreign::nvtx::FunctionPointer ChainedCore2(uint32_t slot);
foreign::nvtx::FunctionPointer ChainedPayload(uint32_t slot);

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_NVTX_CHAIN_HANDLERS_H_
