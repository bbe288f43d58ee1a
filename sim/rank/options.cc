#include "sim/rank/options.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <iostream>

namespace lockstep::sim {
namespace {

constexpr char kAbout[] =
    "A training rank without a GPU: runs a timeline in virtual time on a simulated CUPTI, with real waiting "
    "over MPI.\n\n"
    "  mpiexec -n 8 lockstep run -- lockstep-sim-rank --forever            a transformer (dp2 tp2 pp2), to "
    "be captured\n"
    "  mpiexec -n 8 lockstep-sim-rank --fault slow_gpu --fault-rank 5 --truth DIR --duration 10s\n"
    "  mpiexec -n 8 lockstep-sim-rank --scenario dlrm.scenario             what `lockstep export --format "
    "scenario` wrote\n"
    "  lockstep-sim-rank --ranks 8 --write-scenario step.scenario          only write the generated "
    "timeline\n\n"
    "Stamps come from the model alone: one seed gives the same stamps to the nanosecond on any machine, "
    "however busy.";
constexpr char kFooter[] =
    "Faults: slow_gpu (its kernels), host_stall (its host, once per step), slow_link (collectives of its "
    "groups, for all\n"
    "their members), copy (its copies). --fault-size is the part of the healthy step by which the rank's own "
    "work grows.\n"
    "SIGTERM and SIGINT end the job at the next step, on all ranks.\n";

// "2s", "150ms", "5us", "7ns", or plain seconds.
bool ParseDuration(const std::string& text, Nanos* out) {
  size_t used = 0;
  double value = 0;
  try {
    value = std::stod(text, &used);
  } catch (const std::exception&) {
    return false;
  }
  const std::string unit = text.substr(used);
  const double scale = unit == "" || unit == "s" ? 1e9
                       : unit == "ms"            ? 1e6
                       : unit == "us"            ? 1e3
                       : unit == "ns"            ? 1
                                                 : 0;
  if (scale == 0 || !(value >= 0) || value * scale > 9e17) return false;
  *out = Nanos(static_cast<int64_t>(std::llround(value * scale)));
  return true;
}

CLI::Option* AddDuration(CLI::App& app, const std::string& name, Nanos* out, const std::string& text) {
  return app
      .add_option_function<std::string>(
          name,
          [name, out](const std::string& value) {
            if (!ParseDuration(value, out))
              throw CLI::ValidationError(name, "is a time like 2s, 150ms or 5us");
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
                 "--fault", "is none, slow_gpu, host_stall, slow_link, copy, random or random-or-none");
           }
         },
         "none, slow_gpu, host_stall, slow_link, copy; random: kind, rank and size are drawn and told to the "
         "truth files only; "
         "random-or-none")
      ->type_name("KIND");
  app.add_option("--fault-rank", o->fault_rank, "the rank that has it");
  app.add_option("--fault-from-step", o->fault_from_step,
                 "healthy before this step; truth tells of the faulty ones")
      ->capture_default_str();
  app.add_option("--fault-size", o->fault_size, "fraction of the healthy step")
      ->check(CLI::Range(0.0, 10.0))
      ->capture_default_str();
  app.add_option("--pause-probability", o->pause_probability, "chance of a host pause, per rank and step")
      ->check(CLI::Range(0.0, 1.0));
  AddDuration(app, "--pause", &o->pause, "mean length of a pause (20ms)");
  app.add_option("--drop-fraction", o->drop_fraction, "part of the records that CUPTI loses")
      ->check(CLI::Range(0.0, 1.0));
}

void AddClock(CLI::App& app, RankOptions* o) {
  app.add_option_function<int64_t>(
      "--clock-offset-ns", [o](const int64_t& v) { o->clock.offset = Nanos(v); },
      "how far this process's CLOCK_REALTIME is ahead");
  app.add_option_function<double>(
      "--clock-drift-ppm", [o](const double& v) { o->clock.drift_ppb = std::llround(v * 1000); },
      "how fast it runs ahead");
  app.add_option_function<int64_t>(
      "--clock-reference-ns",
      [o](const int64_t& v) {
        o->clock.reference = MonoTime(v);
        o->clock_reference_given = true;
      },
      "the CLOCK_MONOTONIC at which the offset holds; the start of the job by default. Give several "
      "processes the same to "
      "let them share a clock");
}

}  // namespace

int ParseOptions(int argc, char** argv, RankOptions* o) {
  CLI::App app{kAbout, "lockstep-sim-rank"};
  app.footer(kFooter);
  app.option_defaults()->always_capture_default(false);
  app.add_option("--scenario", o->scenario_file,
                 "timeline to run; without it one is generated for the ranks there are");
  app.add_option("--write-scenario", o->write_scenario, "write the generated timeline to this file and end");
  uint32_t ranks = 0;
  app.add_option("--ranks", ranks, "with --write-scenario: ranks of the generated job (8)");
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
      shape->add_option("--ranks-per-host", given.ranks_per_host, "ranks that share a host's name");
  auto* matmul =
      AddDuration(*shape, "--matmul", &given.matmul, "length of one forward matrix multiplication (520us)");
  app.add_option("--steps", o->steps, "how many steps to run");
  AddDuration(app, "--duration", &o->duration, "how long to run (20s), when --steps is not given");
  app.add_flag("--forever", o->forever, "until SIGTERM or SIGINT");
  app.add_option("--time-scale", o->time_scale, "everything takes this many times as long, for slow machines")
      ->check(CLI::Range(1, 1000));
  Nanos hold = Nanos::Millis(250);
  auto* hold_given =
      AddDuration(app, "--hold-when-late", &hold,
                  "a job that is later than this waits at its next step but one until it is in time again, "
                  "on all ranks alike; "
                  "stamps then depend on how busy the machine is (250ms with --forever, else never)");
  app.add_option("--seed", o->seed, "of all random draws")->capture_default_str();
  app.add_option("--profile-every", o->profile_every, "call cudaProfilerStart every so many steps");
  app.add_option("--profile-steps", o->profile_steps, "and cudaProfilerStop so many steps later (2)");
  AddFault(app, o);
  AddClock(app, o);
  app.add_option("--truth", o->truth_folder, "write truth-<rank>.json here: fault, clocks, records made");
  app.add_option("--stamps", o->stamps_folder, "write <rank>.stamps here: every record's true stamps");
  app.add_option("--cupti", o->cupti_library, "the simulated CUPTI, if it is not in ../lib");
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
