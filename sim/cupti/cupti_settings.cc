#include "sim/cupti/cupti_settings.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <string_view>

namespace lockstep::sim {
namespace {

bool Number(std::string_view text, uint32_t* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size() && *out > 0;
}

struct Switch {
  std::string_view name;
  bool CuptiSettings::*fault;
};
constexpr Switch kSwitches[] = {
    {"graph_before_cupti", &CuptiSettings::graph_before_cupti},
    {"graph_correlation", &CuptiSettings::graph_correlation},
    {"exclusive", &CuptiSettings::exclusive},
    {"keep_buffers", &CuptiSettings::keep_buffers},
    {"zeroing", &CuptiSettings::zeroing},
    {"reorder", &CuptiSettings::reorder},
    {"one_buffer", &CuptiSettings::one_buffer},
    {"tsc_clock", &CuptiSettings::tsc_clock},
    {"no_objects", &CuptiSettings::no_objects},
    {"no_external", &CuptiSettings::no_external},
};

struct Amount {
  std::string_view name;
  uint32_t CuptiSettings::*fault;
};
constexpr Amount kAmounts[] = {
    {"zero_stamps", &CuptiSettings::zero_stamps},
    {"drop", &CuptiSettings::drop},
    {"vanish", &CuptiSettings::vanish},
    {"twice", &CuptiSettings::twice},
    {"correlation", &CuptiSettings::correlation},
    {"instant", &CuptiSettings::instant},
    {"stretch", &CuptiSettings::stretch_percent},
    {"early", &CuptiSettings::early_us},
    {"late_buffers", &CuptiSettings::late_buffers_ms},
    {"late_drops", &CuptiSettings::late_drops_ms},
    {"finalize", &CuptiSettings::finalize_ms},
    {"device_lost", &CuptiSettings::device_lost_ms},
    {"not_initialized", &CuptiSettings::not_initialized},
    {"unknown", &CuptiSettings::unknown},
    {"rival", &CuptiSettings::rival_ms},
};

// The fault `hostile` is this list.
constexpr std::string_view kHostile =
    "keep_buffers,zeroing,reorder,late_drops=50,late_buffers=5,graph_correlation";

bool ApplyFault(std::string_view fault, CuptiSettings* settings) {
  const size_t equals = fault.find('=');
  const std::string_view name = fault.substr(0, equals);
  if (equals == std::string_view::npos) {
    const auto* found = std::ranges::find(kSwitches, name, &Switch::name);
    return found != std::end(kSwitches) && (settings->*found->fault = true);
  }
  const auto* found = std::ranges::find(kAmounts, name, &Amount::name);
  return found != std::end(kAmounts) && Number(fault.substr(equals + 1), &(settings->*found->fault));
}

// Returns false if a fault of the list is invalid. The others apply nevertheless.
bool ApplyFaults(std::string_view list, CuptiSettings* settings) {
  bool valid = true;
  while (!list.empty()) {
    const size_t comma = list.find(',');
    const std::string_view fault = list.substr(0, comma);
    list = comma == std::string_view::npos ? "" : list.substr(comma + 1);
    if (fault == "hostile") {
      ApplyFaults(kHostile, settings);
    } else if (!fault.empty() && !ApplyFault(fault, settings)) {
      valid = false;
    }
  }
  return valid;
}

}  // namespace

CuptiSettings CuptiSettings::Parse(const char* version, const char* faults, const char** error) {
  CuptiSettings settings;
  *error = nullptr;
  if (version != nullptr && !Number(version, &settings.version)) {
    *error = version;
    settings.version = CuptiSettings{}.version;
  }
  if (faults != nullptr && !ApplyFaults(faults, &settings)) *error = faults;
  if (settings.rival_ms > 0) settings.exclusive = true;
  return settings;
}

}  // namespace lockstep::sim
