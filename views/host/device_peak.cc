#include "views/host/device_peak.h"

#include <cstdint>

namespace lockstep::views {
namespace {

enum class Element : uint8_t { kHalf, kBfloat, kFloat, kDouble, kOther };

Element ElementOf(std::string_view type) {
  if (type == "float") return Element::kFloat;
  if (type == "double") return Element::kDouble;
  if (type == "c10::Half" || type == "Half") return Element::kHalf;
  if (type == "c10::BFloat16" || type == "BFloat16") return Element::kBfloat;
  return Element::kOther;
}

// FLOP per cycle of one multiprocessor. 0: the device has no such units, or the value is unknown.
struct PerCycle {
  int capability;  // major * 10 + minor
  int float_plain, double_plain;
  int half_tensor, bfloat_tensor, float_tensor, double_tensor;
};

constexpr PerCycle kPerCycle[] = {
    {60, 128, 64, 0, 0, 0, 0},
    {61, 256, 8, 0, 0, 0, 0},
    {70, 128, 64, 1024, 0, 0, 0},
    {75, 128, 4, 1024, 0, 0, 0},
    {80, 128, 64, 2048, 2048, 1024, 128},
    {86, 256, 4, 1024, 1024, 512, 0},
    {89, 256, 4, 1024, 1024, 512, 0},
    {90, 256, 128, 4096, 4096, 2048, 256},
};

int FlopPerCycle(const PerCycle& of, Element element, MathUnits units) {
  const bool tensor = units == MathUnits::kTensorCores;
  switch (element) {
    case Element::kHalf:
      return tensor ? of.half_tensor : 0;
    case Element::kBfloat:
      return tensor ? of.bfloat_tensor : 0;
    case Element::kFloat:
      return tensor ? of.float_tensor : of.float_plain;
    case Element::kDouble:
      return tensor ? of.double_tensor : of.double_plain;
    case Element::kOther:
      return 0;
  }
  return 0;
}

}  // namespace

std::optional<double> PeakFlopPerS(const capture::DeviceProperties& device, std::string_view type,
                                   MathUnits units) {
  if (device.clock_khz == 0 || device.sms <= 0) return std::nullopt;
  for (const PerCycle& of : kPerCycle) {
    if (of.capability != device.compute_major * 10 + device.compute_minor) continue;
    const int flop = FlopPerCycle(of, ElementOf(type), units);
    if (flop == 0) return std::nullopt;
    return 1e3 * device.clock_khz * device.sms * flop;
  }
  return std::nullopt;
}

}  // namespace lockstep::views
