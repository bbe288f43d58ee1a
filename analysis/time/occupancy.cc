#include "analysis/time/occupancy.h"

#include <algorithm>

#include "analysis/time/utilization.h"

namespace lockstep::analysis {
namespace {

constexpr int32_t kWarp = 32;
// Warps get registers in units of this many, from the quarter of the register file that runs the warp.
constexpr int32_t kRegisterUnit = 256;

// Limits of a multiprocessor, by compute capability.
struct SmLimits {
  int32_t capability;  // 10 * major + minor; valid from this one on
  int32_t warps, blocks;
  int32_t registers;
  int32_t parts;  // parts of the register file
  int32_t shared_kib;
  int32_t shared_unit;  // bytes
  int32_t reserved;     // bytes of shared memory that the system takes for each block
};

constexpr SmLimits kLimits[] = {
    {30, 64, 16, 65536, 4, 48, 256, 0},     {37, 64, 16, 131072, 4, 112, 256, 0},
    {50, 64, 32, 65536, 4, 64, 256, 0},     {52, 64, 32, 65536, 4, 96, 256, 0},
    {53, 64, 32, 65536, 4, 64, 256, 0},     {60, 64, 32, 65536, 2, 64, 256, 0},
    {61, 64, 32, 65536, 4, 96, 256, 0},     {62, 64, 32, 65536, 4, 64, 256, 0},
    {70, 64, 32, 65536, 4, 96, 256, 0},     {75, 32, 16, 65536, 4, 64, 256, 0},
    {80, 64, 32, 65536, 4, 164, 128, 1024}, {86, 48, 16, 65536, 4, 100, 128, 1024},
    {87, 48, 16, 65536, 4, 164, 128, 1024}, {89, 48, 24, 65536, 4, 100, 128, 1024},
    {90, 64, 32, 65536, 4, 228, 128, 1024}, {120, 48, 24, 65536, 4, 100, 128, 1024},
};

const SmLimits* LimitsOf(const capture::DeviceProperties& device) {
  const int32_t capability = device.compute_major * 10 + device.compute_minor;
  const SmLimits* found = nullptr;
  for (const SmLimits& limits : kLimits) {
    if (limits.capability <= capability) found = &limits;
  }
  return found;
}

int64_t RoundedUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

int64_t ThreadsOf(const capture::KernelDetail& detail) {
  return int64_t{detail.block[0]} * detail.block[1] * detail.block[2];
}

int64_t MaxThreads(const SmLimits& limits, const capture::DeviceProperties& device) {
  return device.max_threads_per_sm > 0 ? device.max_threads_per_sm : int64_t{limits.warps} * kWarp;
}

}  // namespace

std::optional<int32_t> ResidentBlocks(const capture::KernelDetail& detail,
                                      const capture::DeviceProperties& device) {
  const SmLimits* limits = LimitsOf(device);
  const int64_t threads = ThreadsOf(detail);
  if (limits == nullptr || threads <= 0 || detail.registers == 0) return std::nullopt;
  const int64_t warps = (threads + kWarp - 1) / kWarp;
  int64_t blocks = std::min<int64_t>(limits->blocks, MaxThreads(*limits, device) / kWarp / warps);

  const int64_t registers = device.registers_per_sm > 0 ? device.registers_per_sm : limits->registers;
  const int64_t for_warp = RoundedUp(int64_t{detail.registers} * kWarp, kRegisterUnit);
  const int64_t warps_with_registers = registers / limits->parts / for_warp * limits->parts;
  blocks = std::min(blocks, warps_with_registers / warps);

  const int64_t asked = int64_t{detail.static_shared_bytes} + detail.dynamic_shared_bytes + limits->reserved;
  if (asked > 0) {
    const int64_t shared = device.shared_bytes_per_sm > 0 ? static_cast<int64_t>(device.shared_bytes_per_sm)
                                                          : int64_t{limits->shared_kib} * 1024;
    blocks = std::min(blocks, shared / RoundedUp(asked, limits->shared_unit));
  }
  return static_cast<int32_t>(std::max<int64_t>(blocks, 0));
}

std::optional<double> TheoreticalOccupancy(const capture::KernelDetail& detail,
                                           const capture::DeviceProperties& device) {
  const std::optional<int32_t> blocks = ResidentBlocks(detail, device);
  if (!blocks) return std::nullopt;
  const int64_t warps = (ThreadsOf(detail) + kWarp - 1) / kWarp;
  const int64_t most_warps = MaxThreads(*LimitsOf(device), device) / kWarp;
  return static_cast<double>(*blocks * warps) / static_cast<double>(most_warps);
}

std::optional<double> EstimatedOccupancy(const capture::KernelDetail& detail,
                                         const capture::DeviceProperties& device) {
  if (detail.occupancy_percent >= 0) return detail.occupancy_percent / 100.0;
  const std::optional<int32_t> resident = ResidentBlocks(detail, device);
  const std::optional<double> in_grid = BlocksPerSm(detail, device.sms);
  // The kernel ran, so one block fits and the records are wrong.
  if (!resident || *resident == 0 || !in_grid) return std::nullopt;
  const double blocks = std::min<double>(*resident, *in_grid);
  return blocks * static_cast<double>(ThreadsOf(detail)) /
         static_cast<double>(MaxThreads(*LimitsOf(device), device));
}

}  // namespace lockstep::analysis
