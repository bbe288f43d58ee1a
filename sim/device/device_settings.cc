#include "sim/device/device_settings.h"

#include <cstdlib>
#include <string_view>

namespace lockstep::sim {
namespace {

std::vector<std::string> Split(const std::string& text, char at) {
  std::vector<std::string> parts;
  size_t from = 0;
  while (true) {
    const size_t to = text.find(at, from);
    parts.push_back(text.substr(from, to - from));
    if (to == std::string::npos) return parts;
    from = to + 1;
  }
}

bool Number(const std::string& text, double* out, std::string* rest = nullptr) {
  char* end = nullptr;
  *out = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || *out < 0) return false;
  if (rest != nullptr) {
    *rest = end;
    return true;
  }
  return *end == '\0';
}

bool ParseRule(const std::string& text, KernelRule* rule) {
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0) return false;
  rule->pattern = text.substr(0, equals);
  const std::vector<std::string> value = Split(text.substr(equals + 1), '~');
  double time = 0, percent = 0;
  std::string unit, sign;
  if (value.size() > 2 || !Number(value[0], &time, &unit)) return false;
  const double scale = unit == "ns" ? 1 : unit == "us" ? 1e3 : unit == "ms" ? 1e6 : 0;
  if (scale == 0) return false;
  if (value.size() == 2 && (!Number(value[1], &percent, &sign) || sign != "%")) return false;
  rule->mean_ns = static_cast<int64_t>(time * scale);
  rule->deviation = percent / 100;
  return true;
}

// Parses RANK and the numbers after it. `ours` is set if RANK is `rank` or *.
bool ParseForRank(const std::string& text, int rank, size_t numbers, double* out, bool* ours) {
  const std::vector<std::string> parts = Split(text, ':');
  if (parts.size() != numbers + 1) return false;
  double who = 0;
  *ours = parts[0] == "*";
  if (!*ours && !Number(parts[0], &who)) return false;
  *ours = *ours || static_cast<int>(who) == rank;
  for (size_t i = 0; i < numbers; ++i) {
    if (!Number(parts[i + 1], &out[i])) return false;
  }
  return true;
}

int RankOf(const DeviceSettings::Environment& environment) {
  for (const char* name : {"SIMGPU_RANK", "LOCKSTEP_RANK", "RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK",
                           "PMI_RANK", "SLURM_PROCID"}) {
    if (const char* value = environment(name)) return std::atoi(value);
  }
  return 0;
}

}  // namespace

DeviceSettings DeviceSettings::Read(const Environment& environment, std::vector<std::string>* error) {
  DeviceSettings settings;
  settings.rank = RankOf(environment);
  const auto refuse = [&](const char* name, const std::string& value) {
    error->push_back(std::string(name) + "=" + value +
                     " is invalid; sim/device/device_settings.h lists the valid values");
  };
  const auto number = [&](const char* name, double least, auto* out) {
    const char* value = environment(name);
    double read = 0;
    if (value == nullptr) return;
    if (Number(value, &read) && read >= least)
      *out = static_cast<std::decay_t<decltype(*out)>>(read);
    else
      refuse(name, value);
  };
  number("SIMGPU_DEVICES", 1, &settings.devices);
  number("SIMGPU_SEED", 0, &settings.seed);
  number("SIMGPU_COPY_GBPS", 0.001, &settings.copy_gbps);
  number("SIMGPU_LINK_GBPS", 0.001, &settings.link_gbps);
  if (const char* rules = environment("SIMGPU_KERNELS")) {
    for (const std::string& text : Split(rules, ',')) {
      KernelRule rule;
      if (ParseRule(text, &rule))
        settings.kernels.push_back(rule);
      else
        refuse("SIMGPU_KERNELS", text);
    }
  }
  double values[2] = {};
  bool ours = false;
  const auto for_rank = [&](const char* name, size_t numbers) {
    const char* value = environment(name);
    ours = false;
    if (value != nullptr && !ParseForRank(value, settings.rank, numbers, values, &ours)) {
      refuse(name, value);
      ours = false;
    }
    return ours;
  };
  if (for_rank("SIMGPU_SLOW_RANK", 1)) settings.kernel_factor = values[0];
  if (for_rank("SIMGPU_SLOW_COPIES", 1)) settings.copy_factor = values[0];
  if (for_rank("SIMGPU_STALL", 2)) {
    settings.stall_launch = static_cast<uint64_t>(values[0]);
    settings.stall_ns = static_cast<int64_t>(values[1] * 1e6);
  }
  if (const char* cut = environment("SIMGPU_NETWORK_CUT")) {
    double to[2] = {};
    const std::string text = cut;
    // The rank is the member that sends, on all ranks.
    if (ParseForRank(text, 0, 2, to, &ours) && text[0] != '*')
      settings.cut = {std::atoi(cut), static_cast<int>(to[0]), static_cast<uint64_t>(to[1])};
    else
      refuse("SIMGPU_NETWORK_CUT", text);
  }
  return settings;
}

}  // namespace lockstep::sim
