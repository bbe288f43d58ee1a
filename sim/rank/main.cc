// lockstep-sim-rank: one rank of a job, without a GPU.
#include <fcntl.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>

#include "scenario/generator.h"
#include "scenario/scenario.h"
#include "sim/engine/dry_run.h"
#include "sim/rank/call_times.h"
#include "sim/rank/loaders.h"
#include "sim/rank/mpi_world.h"
#include "sim/rank/nccl_emulation.h"
#include "sim/rank/options.h"
#include "sim/rank/pacer.h"
#include "sim/rank/process_clock.h"
#include "sim/rank/rank_recorder.h"
#include "sim/rank/truth.h"

namespace lockstep::sim {
namespace {

constexpr int kUsage = 2, kFailed = 1;
constexpr Nanos kStartDelay = Nanos::Millis(100);
// Keeps the dry runs before the start below about one second.
constexpr uint64_t kDryRunRecords = 400'000;

// Signal handlers change nothing else.
volatile sig_atomic_t g_stop = 0;

void OnSignal(int) { g_stop = 1; }

void CatchSignals() {
  struct sigaction action {};
  action.sa_handler = OnSignal;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
}

std::optional<scenario::Scenario> LoadScenario(const RankOptions& options, uint32_t world_size,
                                               std::string* why) {
  scenario::TransformerShape shape = options.shape;
  if (options.scenario_file.empty() && !options.shape_given) {
    const scenario::TransformerShape fitting = scenario::ShapeFor(world_size);
    shape.data_parallel = fitting.data_parallel;
    shape.tensor_parallel = fitting.tensor_parallel;
    shape.pipeline_parallel = fitting.pipeline_parallel;
  }
  absl::StatusOr<scenario::Scenario> s = options.scenario_file.empty()
                                             ? scenario::MakeTransformer(shape)
                                             : scenario::ReadFile(options.scenario_file);
  if (!s.ok()) {
    *why = std::string(s.status().message());
    return std::nullopt;
  }
  if (options.time_scale > 1) scenario::Stretch(*s, options.time_scale);
  return *std::move(s);
}

int WriteScenarioFile(const RankOptions& options) {
  std::string why;
  const std::optional<scenario::Scenario> s = LoadScenario(options, options.shape.ranks(), &why);
  if (!s) {
    fprintf(stderr, "lockstep-sim-rank: %s\n", why.c_str());
    return kUsage;
  }
  FILE* file = fopen(options.write_scenario.c_str(), "w");
  bool written = file != nullptr;
  if (written) {
    written = scenario::Write(*s, [&](std::string_view text) {
                return fwrite(text.data(), 1, text.size(), file) == text.size()
                           ? absl::OkStatus()
                           : absl::DataLossError("short write");
              }).ok();
    written &= fclose(file) == 0;
  }
  if (!written)
    fprintf(stderr, "lockstep-sim-rank: cannot write %s: %s\n", options.write_scenario.c_str(),
            strerror(errno));
  return written ? 0 : kFailed;
}

// The values that rank 0 decides and sends to the other ranks.
struct Plan {
  Fault fault;
  Nanos healthy_step;
  Nanos faulty_step;
  MonoTime zero;
  HostTime realtime;
  int error = 0;
};

uint64_t RandomBits() {
  uint64_t bits = 0;
  const int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
  if (fd < 0 || read(fd, &bits, sizeof bits) != sizeof bits) {
    if (getrandom(&bits, sizeof bits, 0) != sizeof bits) bits = static_cast<uint64_t>(MachineRealtime().ns());
  }
  if (fd >= 0) close(fd);
  return bits;
}

// Draws one of the faults that a rank has work for, all with the same probability.
bool DrawFault(const scenario::Scenario& s, FaultChoice choice, Nanos healthy, Fault* out) {
  const double size = 0.05 + 0.25 * static_cast<double>(RandomBits() % 1'000'001) / 1e6;
  std::vector<Fault> fitting;
  for (FaultKind kind : {FaultKind::kNone, FaultKind::kSlowGpu, FaultKind::kHostStall, FaultKind::kSlowLink,
                         FaultKind::kCopy}) {
    if (kind == FaultKind::kNone && choice != FaultChoice::kRandomOrNone) continue;
    for (uint32_t rank = 0; rank < s.ranks.size(); ++rank) {
      Fault fault;
      if (SizeFault(s, kind, rank, size, healthy, &fault)) fitting.push_back(fault);
    }
  }
  if (fitting.empty()) {
    fprintf(stderr, "lockstep-sim-rank: no rank has work for any fault; use --fault none\n");
    return false;
  }
  *out = fitting[RandomBits() % fitting.size()];
  return true;
}

bool ChooseFault(const scenario::Scenario& s, const RankOptions& options, Nanos healthy, Fault* out) {
  if (options.fault_choice == FaultChoice::kNamed) {
    if (options.fault_rank >= s.ranks.size()) {
      fprintf(stderr, "lockstep-sim-rank: --fault-rank %u must be 0 to %zu\n", options.fault_rank,
              s.ranks.size() - 1);
      return false;
    }
    if (SizeFault(s, options.fault, options.fault_rank, options.fault_size, healthy, out)) return true;
    fprintf(stderr, "lockstep-sim-rank: rank %u has no work for --fault %s\n", options.fault_rank,
            std::string(FaultName(options.fault)).c_str());
    return false;
  }
  return DrawFault(s, options.fault_choice, healthy, out);
}

uint32_t DryRunSteps(const scenario::Scenario& s) {
  uint64_t records = 1;
  for (const scenario::Rank& rank : s.ranks) records += rank.program.size();
  return static_cast<uint32_t>(std::clamp<uint64_t>(kDryRunRecords / records, 3, 24));
}

Plan MakePlan(const scenario::Scenario& s, const RankOptions& options) {
  Plan plan;
  ModelSettings settings;
  settings.seed = options.seed;
  settings.pause_ppm = static_cast<uint32_t>(options.pause_probability * 1e6);
  settings.pause = options.pause;
  const uint32_t steps = DryRunSteps(s);
  const WorldHistory healthy = DryRun(s, settings, steps);
  if (!healthy.stuck.empty()) {
    fprintf(stderr, "lockstep-sim-rank: this scenario deadlocks: %s\n", healthy.stuck.c_str());
    plan.error = kUsage;
    return plan;
  }
  const Nanos step = MeanStep(s, healthy);
  if (!ChooseFault(s, options, step, &plan.fault)) {
    plan.error = kUsage;
    return plan;
  }
  settings.fault = plan.fault;
  plan.healthy_step = MeanIteration(s, healthy);
  plan.faulty_step =
      plan.fault.kind == FaultKind::kNone ? plan.healthy_step : MeanIteration(s, DryRun(s, settings, steps));
  // Set after the dry run, because the dry run may be shorter than the healthy part.
  plan.fault.from_step = options.fault_from_step;
  return plan;
}

std::optional<uint32_t> StepCount(const scenario::Scenario& s, const RankOptions& options, const Plan& plan) {
  if (options.forever) return std::nullopt;
  if (options.steps != 0) return options.steps;
  const Nanos step = s.pacing == scenario::Pacing::kLoop ? s.period : plan.faulty_step;
  return static_cast<uint32_t>(
      std::clamp<int64_t>(options.duration.ns() / std::max<int64_t>(step.ns(), 1) + 1, 1, 1'000'000'000));
}

// Does all checks that can fail before any rank waits for another. Returns 0, or the exit code and a sentence
// in *why.
int Prepare(const RankOptions& options, const MpiWorld& world, const scenario::Scenario** scenario,
            const SimCore** cupti, std::string* why) {
  std::optional<scenario::Scenario> loaded = LoadScenario(options, world.size(), why);
  if (!loaded) return kUsage;
  // The scenario lives until the process ends. Records point to its kernel names, and a tool may flush while
  // the process ends.
  const auto* const s = new scenario::Scenario(*std::move(loaded));
  *scenario = s;
  const std::string ranks = std::to_string(s->ranks.size());
  if (s->ranks.size() != world.size()) {
    *why = "the scenario has " + ranks + " ranks, but " + std::to_string(world.size()) +
           " were started; use mpiexec -n " + ranks;
    return kUsage;
  }
  *cupti = LoadSimCupti(options.cupti_library, why);
  if (*cupti != nullptr) return 0;
  *why = "the simulated CUPTI cannot be loaded: " + *why + "; --cupti names it";
  return kFailed;
}

// Runs the rank between MPI_Init and MPI_Finalize.
int RunRank(const RankOptions& options, MpiWorld& world) {
  const scenario::Scenario* s = nullptr;
  const SimCore* cupti = nullptr;
  std::string why;
  const int wrong = Prepare(options, world, &s, &cupti, &why);
  const uint32_t first_failed = world.FirstFailed(wrong != 0);
  if (first_failed == world.rank()) fprintf(stderr, "lockstep-sim-rank: %s\n", why.c_str());
  if (first_failed != world.size()) return wrong != 0 ? wrong : kFailed;
  const uint32_t rank = world.rank();
  // The clock must be set before any tool is loaded.
  ClockError error = options.clock;
  MonoTime start = MachineMonotonic();
  world.Broadcast(&start, sizeof start);
  if (!options.clock_reference_given) error.reference = start;
  SetProcessClock(error);
  const SimDevice device{s->ranks[rank].device, "Simulated GPU", s->ranks[rank].streams.data(),
                         s->ranks[rank].streams.size(), rank + 1};
  cupti->attach(&device);
  EmulateCudaInit();

  Plan plan;
  if (rank == 0) plan = MakePlan(*s, options);
  world.Broadcast(&plan, sizeof plan);
  if (plan.error != 0) return plan.error;
  ModelSettings settings;
  settings.seed = options.seed;
  settings.fault = plan.fault;
  settings.pause_ppm = static_cast<uint32_t>(options.pause_probability * 1e6);
  settings.pause = options.pause;

  const Program program = Compile(*s, rank);
  const Model model(program, settings);
  const NvtxLoader nvtx;
  NcclEmulation nccl(program, LoadNcclProfiler());
  MpiResolver resolver(program);
  StepVote vote;
  world.Barrier();
  if (rank == 0) {
    plan.zero = MachineMonotonic() + kStartDelay;
    plan.realtime = MachineRealtime() + (plan.zero - MachineMonotonic());
  }
  world.Broadcast(&plan, sizeof plan);
  const StampClock clock(plan.zero, plan.realtime, error);

  Truth truth{rank,       world.size(),      s->ranks[rank].host, options.seed,
              plan.fault, plan.healthy_step, plan.faulty_step,    clock};
  const auto write_truth = [&] {
    if (options.truth_folder.empty() || WriteTruth(options.truth_folder, truth)) return true;
    fprintf(stderr, "lockstep-sim-rank: cannot write truth file %s: %s\n", options.truth_folder.c_str(),
            strerror(errno));
    return false;
  };
  if (world.FirstFailed(!write_truth()) != world.size()) return kFailed;

  RankRecorder recorder(program, model, *cupti, nvtx, nccl, clock,
                        {options.seed, static_cast<uint32_t>(options.drop_fraction * 1e6),
                         !options.stamps_folder.empty(), options.profile_every, options.profile_steps});
  std::optional<CallTimes> call_times;
  if (!options.call_times_folder.empty()) call_times.emplace(options.call_times_folder, rank, recorder);
  if (world.FirstFailed(call_times && !call_times->ok()) != world.size()) return kFailed;
  RankEngine engine(program, model, resolver,
                    call_times ? static_cast<RankObserver&>(*call_times) : recorder);
  Pacer pacer(rank, engine, resolver, vote, recorder, *cupti, clock,
              {StepCount(*s, options, plan), options.hold_when_late, [] { return g_stop != 0; }});
  const PacerEnd end = pacer.Run();
  if (end == PacerEnd::kGaveUp) world.Abandon();
  truth.complete = true;
  truth.step_starts = recorder.history().step_starts;
  truth.ledger_size = cupti->ledger(&truth.ledger);
  bool written = write_truth();
  if (!options.stamps_folder.empty()) written &= WriteStamps(options.stamps_folder, rank, recorder.history());
  return written ? 0 : kFailed;
}

}  // namespace
}  // namespace lockstep::sim

int main(int argc, char** argv) {
  using namespace lockstep::sim;
  RankOptions options;
  if (const int code = ParseOptions(argc, argv, &options); code >= 0) return code;
  if (!options.write_scenario.empty()) return WriteScenarioFile(options);
  CatchSignals();
  for (const std::string& folder : {options.truth_folder, options.stamps_folder, options.call_times_folder}) {
    if (!folder.empty()) mkdir(folder.c_str(), 0777);
  }
  MpiWorld world(&argc, &argv);
  return RunRank(options, world);
}
