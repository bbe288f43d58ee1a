// Parses the command line of lockstep-sim-rank.
#ifndef LOCKSTEP_SIM_RANK_OPTIONS_H_
#define LOCKSTEP_SIM_RANK_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "base/time.h"
#include "scenario/generator.h"
#include "sim/engine/model.h"
#include "sim/rank/process_clock.h"

namespace lockstep::sim {

enum class FaultChoice : uint8_t { kNamed, kRandom, kRandomOrNone };

struct RankOptions {
  std::string scenario_file;
  std::string write_scenario;
  scenario::TransformerShape shape;
  bool shape_given = false;
  uint32_t steps = 0;  // 0 means that the duration decides
  Nanos duration = Nanos::Seconds(20);
  bool forever = false;
  uint32_t time_scale = 1;
  std::optional<Nanos> hold_when_late;

  uint64_t seed = 1;
  FaultChoice fault_choice = FaultChoice::kNamed;
  FaultKind fault = FaultKind::kNone;
  uint32_t fault_rank = 0;
  double fault_size = 0.15;
  uint32_t fault_from_step = 0;
  double pause_probability = 0;
  Nanos pause = Nanos::Millis(20);
  double drop_fraction = 0;
  // The program calls cudaProfilerStart at every `profile_every`-th step, and cudaProfilerStop
  // `profile_steps` steps later. 0 means never.
  uint32_t profile_every = 0;
  uint32_t profile_steps = 2;
  ClockError clock;
  bool clock_reference_given = false;

  std::string truth_folder;
  std::string stamps_folder;
  std::string call_times_folder;
  std::string cupti_library;
};

// Returns -1 to continue, else the exit code: after the help text, or after an error on stderr.
int ParseOptions(int argc, char** argv, RankOptions* out);

}  // namespace lockstep::sim

#endif  // LOCKSTEP_SIM_RANK_OPTIONS_H_
