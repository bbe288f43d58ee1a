#include "sim/cupti/cupti_settings.h"

#include <charconv>
#include <string_view>

namespace lockstep::sim {
namespace {

bool Number(std::string_view text, uint32_t* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size() && *out > 0;
}

bool BecomeHostile(CuptiSettings* settings) {
  settings->keep_buffers = settings->zeroing = settings->reorder = settings->graph_correlation = true;
  settings->late_drops_ms = 50;
  settings->late_buffers_ms = 5;
  return true;
}

bool ApplyFault(std::string_view fault, CuptiSettings* settings) {
  const size_t equals = fault.find('=');
  const std::string_view name = fault.substr(0, equals);
  if (equals == std::string_view::npos) {
    if (name == "graph_before_cupti") return settings->graph_before_cupti = true;
    if (name == "graph_correlation") return settings->graph_correlation = true;
    if (name == "exclusive") return settings->exclusive = true;
    if (name == "keep_buffers") return settings->keep_buffers = true;
    if (name == "zeroing") return settings->zeroing = true;
    if (name == "reorder") return settings->reorder = true;
    if (name == "one_buffer") return settings->one_buffer = true;
    if (name == "tsc_clock") return settings->tsc_clock = true;
    if (name == "no_objects") return settings->no_objects = true;
    if (name == "no_external") return settings->no_external = true;
    if (name == "hostile") return BecomeHostile(settings);
    return false;
  }
  const std::string_view value = fault.substr(equals + 1);
  if (name == "zero_stamps") return Number(value, &settings->zero_stamps);
  if (name == "drop") return Number(value, &settings->drop);
  if (name == "vanish") return Number(value, &settings->vanish);
  if (name == "twice") return Number(value, &settings->twice);
  if (name == "correlation") return Number(value, &settings->correlation);
  if (name == "instant") return Number(value, &settings->instant);
  if (name == "stretch") return Number(value, &settings->stretch_percent);
  if (name == "early") return Number(value, &settings->early_us);
  if (name == "late_buffers") return Number(value, &settings->late_buffers_ms);
  if (name == "late_drops") return Number(value, &settings->late_drops_ms);
  if (name == "finalize") return Number(value, &settings->finalize_ms);
  if (name == "device_lost") return Number(value, &settings->device_lost_ms);
  if (name == "not_initialized") return Number(value, &settings->not_initialized);
  if (name == "unknown") return Number(value, &settings->unknown);
  if (name == "rival") return settings->exclusive = Number(value, &settings->rival_ms);
  return false;
}

}  // namespace

CuptiSettings CuptiSettings::Parse(const char* version, const char* faults, const char** error) {
  CuptiSettings settings;
  *error = nullptr;
  if (version != nullptr && !Number(version, &settings.version)) {
    *error = version;
    settings.version = CuptiSettings{}.version;
  }
  std::string_view rest = faults == nullptr ? "" : faults;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    const std::string_view fault = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? "" : rest.substr(comma + 1);
    if (!fault.empty() && !ApplyFault(fault, &settings)) *error = faults;
  }
  return settings;
}

}  // namespace lockstep::sim
