#include "sim/rank/options.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <iostream>

#include "base/settings/duration.h"

namespace lockstep::sim {
namespace {

constexpr char kAbout[] =
    "A training rank without a GPU: runs a timeline in virtual time on a simulated CUPTI, with real waits "
    "over MPI.\n\n"
    "  mpiexec -n 8 lockstep run -- lockstep-sim-rank --forever            a transformer (dp2 tp2 pp2), for "
    "captures\n"
    "  mpiexec -n 8 lockstep-sim-rank --fault slow_gpu --fault-rank 5 --truth DIR --duration 10s\n"
    "  mpiexec -n 8 lockstep-sim-rank --scenario dlrm.scenario             a file that `lockstep export "
    "--format "
    "scenario` wrote\n"
    "  lockstep-sim-rank --ranks 8 --write-scenario step.scenario          only write the generated "
    "timeline\n\n"
    "Stamps come from the model alone. One seed gives the same stamps to the nanosecond on any machine, "
    "under any load.";
constexpr char kFooter[] =
    "Faults: slow_gpu (its kernels), host_stall (its host, once per step), slow_link (collectives of its "
    "groups, for all\n"
    "their members), copy (its copies). --fault-size is the part of the healthy step by which the rank's own "
    "work grows.\n"
    "SIGTERM and SIGINT end the job at the next step, on all ranks.\n";

CLI::Option* AddDuration(CLI::App& app, const std::string& name, Nanos* out, const std::string& text) {
  return app
      .add_option_function<std::string>(
          name,
          [name, out](const std::string& value) {
            const absl::StatusOr<Nanos> parsed =
                settings::ParseDuration(value, settings::kSimulationDuration);
            if (!parsed.ok()) throw CLI::ValidationError(name, std::string(parsed.status().message()));
            *out = *parsed;
          },
          text)
      ->type_name("TIME");
}

void AddFault(CLI::App& app, RankOptions* o) {
  app.add_option_function<std::string>(
         "--fault",
         [o](const std::string& value) {
           if (value == "random")
             o->fault_choice = FaultChoice::kRandom;
           else if (value == "random-or-none")
             o->fault_choice = FaultChoice::kRandomOrNone;
           else if (!FaultFromText(value, &o->fault)) {
             throw CLI::ValidationError(
                 "--fault", "must be none, slow_gpu, host_stall, slow_link, copy, random or random-or-none");
           }
         },
         "none, slow_gpu, host_stall, slow_link, copy; random: kind, rank and size are drawn and written to "
         "the truth files only; "
         "random-or-none")
      ->type_name("KIND");
  app.add_option("--fault-rank", o->fault_rank, "rank with the fault");
  app.add_option("--fault-from-step", o->fault_from_step,
                 "first turn of the programs with the fault; the truth files describe the later turns")
      ->capture_default_str();
  app.add_option("--fault-size", o->fault_size, "size of the fault, as a fraction of the healthy step")
      ->check(CLI::Range(0.0, 10.0))
      ->capture_default_str();
  app.add_option("--pause-probability", o->pause_probability,
                 "probability of a host pause, per rank and step")
      ->check(CLI::Range(0.0, 1.0));
  AddDuration(app, "--pause", &o->pause, "mean length of a pause (20ms)");
  app.add_option("--drop-fraction", o->drop_fraction, "fraction of the records that CUPTI loses")
      ->check(CLI::Range(0.0, 1.0));
}

void AddClock(CLI::App& app, RankOptions* o) {
  app.add_option_function<int64_t>(
      "--clock-offset-ns", [o](const int64_t& v) { o->clock.offset = Nanos(v); },
      "offset of this process's CLOCK_REALTIME");
  app.add_option_function<double>(
      "--clock-drift-ppm", [o](const double& v) { o->clock.drift_ppb = std::llround(v * 1000); },
      "drift of this process's CLOCK_REALTIME");
  app.add_option_function<int64_t>(
      "--clock-reference-ns",
      [o](const int64_t& v) {
        o->clock.reference = MonoTime(v);
        o->clock_reference_given = true;
      },
      "the CLOCK_MONOTONIC at which the offset holds; default: the start of the job. Processes with the "
      "same value share a clock");
  auto* step = app.add_option_function<int64_t>(
      "--clock-step-ns", [o](const int64_t& v) { o->clock.step = Nanos(v); },
      "time by which this process's CLOCK_REALTIME is set");
  app.add_option_function<int64_t>(
         "--clock-step-at-ns", [o](const int64_t& v) { o->clock.step_at = MonoTime(v); },
         "the CLOCK_MONOTONIC at which it is set")
      ->needs(step);
}

}  // namespace

int ParseOptions(int argc, char** argv, RankOptions* o) {
  CLI::App app{kAbout, "lockstep-sim-rank"};
  app.footer(kFooter);
  app.option_defaults()->always_capture_default(false);
  app.add_option("--scenario", o->scenario_file,
                 "timeline to run; default: one generated for the number of ranks");
  app.add_option("--write-scenario", o->write_scenario, "write the generated timeline to this file and exit");
  uint32_t ranks = 0;
  app.add_option("--ranks", ranks, "with --write-scenario: number of ranks of the generated job (8)");
  auto* shape = app.add_option_group("Generated timeline");
  scenario::TransformerShape given;
  shape->add_option("--data-parallel,--dp", given.data_parallel, "replicas");
  shape->add_option("--tensor-parallel,--tp", given.tensor_parallel, "shards of a layer");
  shape->add_option("--pipeline-parallel,--pp", given.pipeline_parallel, "stages");
  auto* layers = shape->add_option("--layers", given.layers_per_stage, "layers per stage");
  auto* microbatches = shape->add_option("--microbatches", given.microbatches, "microbatches per step");
  auto* noise =
      shape->add_option("--noise-ppm", given.noise_ppm, "standard deviation of durations (10000 = 1 %)");
  auto* per_host =
      shape->add_option("--ranks-per-host", given.ranks_per_host, "number of ranks with the same host name");
  auto* matmul =
      AddDuration(*shape, "--matmul", &given.matmul, "length of one forward matrix multiplication (520us)");
  app.add_option("--steps", o->steps, "number of steps to run");
  AddDuration(app, "--duration", &o->duration, "time to run without --steps (20s)");
  app.add_flag("--forever", o->forever, "run until SIGTERM or SIGINT");
  app.add_option("--time-scale", o->time_scale, "factor for all durations, for slow machines")
      ->check(CLI::Range(1, 1000));
  Nanos hold = Nanos::Millis(250);
  auto* hold_given =
      AddDuration(app, "--hold-when-late", &hold,
                  "a job that is later than this waits on all ranks, two steps ahead, until it is on time; "
                  "stamps then depend on the load of the machine (250ms with --forever, else never)");
  app.add_option("--seed", o->seed, "seed of all random draws")->capture_default_str();
  app.add_option("--profile-every", o->profile_every, "call cudaProfilerStart every N steps");
  app.add_option("--profile-steps", o->profile_steps, "call cudaProfilerStop N steps later (2)");
  AddFault(app, o);
  AddClock(app, o);
  app.add_option("--truth", o->truth_folder, "folder for truth-<rank>.json: fault, clocks, written records");
  app.add_option("--stamps", o->stamps_folder, "folder for <rank>.stamps: every record's true stamps");
  app.add_option("--call-times", o->call_times_folder,
                 "folder for <rank>.calls: the time that CUDA calls took, four lines per second");
  app.add_option("--cupti", o->cupti_library, "path of the simulated CUPTI, if it is not in ../lib");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return e.get_exit_code() == 0 ? app.exit(e) : (app.exit(e, std::cout, std::cerr), 2);
  }
  if (o->forever || hold_given->count() > 0) o->hold_when_late = hold;
  const bool sizes = shape->count("--data-parallel") + shape->count("--tensor-parallel") +
                         shape->count("--pipeline-parallel") >
                     0;
  o->shape = sizes ? given : scenario::ShapeFor(ranks == 0 ? 8 : ranks);
  o->shape_given = sizes || ranks != 0;
  if (layers->count() > 0) o->shape.layers_per_stage = given.layers_per_stage;
  if (microbatches->count() > 0) o->shape.microbatches = given.microbatches;
  if (noise->count() > 0) o->shape.noise_ppm = given.noise_ppm;
  if (per_host->count() > 0) o->shape.ranks_per_host = given.ranks_per_host;
  if (matmul->count() > 0) o->shape.matmul = given.matmul;
  if (sizes && shape->count("--data-parallel") == 0) o->shape.data_parallel = 1;
  if (sizes && shape->count("--tensor-parallel") == 0) o->shape.tensor_parallel = 1;
  if (sizes && shape->count("--pipeline-parallel") == 0) o->shape.pipeline_parallel = 1;
  return -1;
}

}  // namespace lockstep::sim
