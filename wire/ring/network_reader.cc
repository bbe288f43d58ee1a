#include "wire/ring/network_reader.h"

#include <algorithm>

namespace lockstep::ring {
namespace {

constexpr int kTriesPerEntry = 8;

// The order of the waits of one step: a later step is never ahead of an earlier one.
constexpr NetworkWait kOfSend[] = {NetworkWait::kNetwork, NetworkWait::kPeer, NetworkWait::kGpu};
constexpr NetworkWait kOfReceive[] = {NetworkWait::kGpu, NetworkWait::kFlush, NetworkWait::kNetwork};

NetworkWait OldestWait(uint64_t waits, NetworkDirection direction) {
  bool seen[256] = {};
  for (uint32_t step = 0; step < kStepsAtOnce; ++step) seen[waits >> (8 * step) & 0xFF] = true;
  for (const NetworkWait wait : direction == NetworkDirection::kSend ? kOfSend : kOfReceive) {
    if (seen[static_cast<uint8_t>(wait)]) return wait;
  }
  return NetworkWait::kNone;
}

// Returns false if the entry is free, or was being written at each try.
bool ReadEntry(const NetworkEntry& from, NetworkProgress* to) {
  const auto load = [](const auto& field) { return field.load(std::memory_order_relaxed); };
  for (int i = 0; i < kTriesPerEntry; ++i) {
    const uint64_t use = from.use.load(std::memory_order_acquire);
    if (use == 0) return false;
    to->communicator = load(from.communicator);
    to->position = load(from.position);
    to->started = HostTime(load(from.started_ns));
    to->moved = HostTime(load(from.moved_ns));
    to->peer = load(from.peer);
    const uint32_t channel = load(from.channel);
    to->channel = channel & ~kNetworkSend;
    to->direction = (channel & kNetworkSend) != 0 ? NetworkDirection::kSend : NetworkDirection::kReceive;
    to->steps = load(from.steps);
    to->steps_done = load(from.steps_done);
    to->wait = OldestWait(load(from.waits), to->direction);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (load(from.use) == use) return true;
  }
  return false;
}

}  // namespace

std::vector<NetworkProgress> ReadNetwork(const Segment& segment) {
  std::vector<NetworkProgress> read;
  for (uint32_t i = 0; i < kNetworkEntries; ++i) {
    NetworkProgress operation;
    if (ReadEntry(segment.network()[i], &operation)) read.push_back(operation);
  }
  std::stable_sort(read.begin(), read.end(),
                   [](const NetworkProgress& a, const NetworkProgress& b) { return a.moved < b.moved; });
  return read;
}

}  // namespace lockstep::ring
