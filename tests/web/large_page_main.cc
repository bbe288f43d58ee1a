// large_page --ranks N --steps N [--hostile]: writes report.html of a synthetic report of any size to stdout,
// for tests of the page.
//
// The report is synthetic because the analysis of a thousand ranks by a hundred steps takes too long. The
// page draws it in the same way. With --hostile, every name contains markup.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/split_mix.h"
#include "web/page/page.h"

namespace lockstep {
namespace {

constexpr int64_t kStep = 100'000'000;
constexpr int32_t kSlowRank = 3;

struct Shape {
  int32_t ranks = 8;
  int32_t steps = 6;
  bool hostile = false;
  std::string Name(const char* plain) const {
    return hostile ? std::string(plain) +
                         "</script><script>window.stolen=1</script><img src=x onerror=window.stolen=2>'\"\xff"
                   : plain;
  }
};

void AddRank(const Shape& shape, int32_t number, SplitMix& random, capture::Capture& capture) {
  capture::RankData rank;
  rank.rank = RankId(number);
  rank.host = static_cast<uint32_t>(number / 8);
  rank.device = DeviceId(static_cast<uint32_t>(number % 8));
  HostTime at(1'000'000'000);
  rank.window.start = at;
  for (int k = 0; k < 40; ++k) {
    capture::DeviceActivity a;
    a.start = at;
    a.end = at + Nanos(2'000'000 + static_cast<int64_t>(random.Next() % 100'000));
    a.name = capture.strings.Intern(shape.Name(k % 2 == 0 ? "gemm" : "norm"));
    at = a.end + Nanos::Micros(50);
    rank.activities.push_back(a);
  }
  rank.window.end = at;
  capture.ranks.push_back(std::move(rank));
}

capture::Capture MakeCapture(const Shape& shape, SplitMix& random) {
  capture::Capture capture;
  capture.job = shape.Name("made-up");
  capture.world_size = shape.ranks;
  for (int32_t h = 0; h < (shape.ranks + 7) / 8; ++h)
    capture.hosts.push_back(
        {.id = shape.Name(("n" + std::to_string(h)).c_str()), .name = "", .exchanges = {}});
  for (int32_t r = 0; r < shape.ranks; ++r) AddRank(shape, r, random, capture);
  return capture;
}

void AddSteps(const Shape& shape, SplitMix& random, report::Report& report) {
  for (int32_t k = 0; k < shape.steps; ++k) {
    report::StepRow step{.step = 100 + k, .duration = Nanos(kStep), .efficiency = {}, .ranks = {}};
    for (int32_t r = 0; r < shape.ranks; ++r) {
      const auto noise = static_cast<int64_t>(random.Next() % 400'000) - 200'000;
      step.ranks.push_back({.rank = RankId(r),
                            .duration = Nanos(kStep + noise),
                            .self = Nanos(kStep / 2),
                            .wait = Nanos(r == kSlowRank ? 0 : 9'000'000 + noise),
                            .overlap = Nanos(),
                            .lost = Nanos(r == kSlowRank ? 10'000'000 + noise : noise)});
    }
    report.steps.push_back(std::move(step));
  }
}

void AddWaiting(const Shape& shape, report::Report& report) {
  report::WaitingRow waiting;
  const bool by_host = shape.ranks > 64;
  waiting.level = by_host ? "host" : "rank";
  const int32_t places = by_host ? (shape.ranks + 7) / 8 : shape.ranks;
  for (int32_t p = 0; p < places; ++p)
    waiting.places.push_back(by_host ? shape.Name(("n" + std::to_string(p)).c_str()) : std::to_string(p));
  const auto causer = static_cast<uint32_t>(by_host ? kSlowRank / 8 : kSlowRank);
  // A cell of a host is the sum over its ranks.
  const int32_t ranks_of_place = by_host ? 8 : 1;
  for (int32_t p = 0; p < places; ++p)
    waiting.cells.push_back(
        {.causer = causer, .victim = static_cast<uint32_t>(p), .wait_ns_per_step = 9e6 * ranks_of_place});
  waiting.waited_ns_per_step = 9e6 * shape.ranks;
  waiting.causers.push_back({.rank = RankId(kSlowRank),
                             .host = shape.Name("n0"),
                             .mean_wait_ns_per_step = 9e6,
                             .direct_ns_per_step = 8e6 * (shape.ranks - 1),
                             .passed_on_ns_per_step = 1e6 * (shape.ranks - 1),
                             .victims = static_cast<uint32_t>(shape.ranks - 1),
                             .path = shape.Name("rank 3's kernels -> all")});
  report.waiting = std::move(waiting);
}

report::Report MakeReport(const Shape& shape, const capture::Capture& capture, SplitMix& random) {
  report::Report report;
  report.capture = {.id = shape.Name("made-up"), .job = capture.job, .source = "import"};
  report.capture.world_size = shape.ranks;
  report.capture.hosts = static_cast<uint32_t>(capture.hosts.size());
  report.capture.named_hosts = report.capture.hosts;
  report.capture.steps = static_cast<uint32_t>(shape.steps);
  report.capture.notes = {shape.Name("a note")};
  report.capture.losses.push_back(
      {.rank = RankId(1), .stage = "ring", .kind = "kernel", .records = 17, .reason = shape.Name("full")});
  for (int32_t r = 0; r < shape.ranks; ++r) {
    report::RankRow row;
    row.rank = RankId(r);
    row.host = capture.hosts[static_cast<size_t>(r / 8)].id;
    row.device = static_cast<uint32_t>(r % 8);
    row.device_name = shape.Name("GPU");
    row.span = Nanos(kStep * shape.steps);
    row.exposed_wait = Nanos(
        r == kSlowRank ? 0 : 9'000'000LL * shape.steps + static_cast<int64_t>(random.Next() % 1'000'000));
    row.exposed_transfer = row.span / 10;
    row.compute = row.span - row.exposed_wait - row.exposed_transfer;
    row.caused_wait = Nanos(r == kSlowRank ? 1'000'000'000 : static_cast<int64_t>(random.Next() % 1'000'000));
    report.ranks.push_back(std::move(row));
  }
  for (int32_t g = 0; g < shape.ranks / 2; ++g) {
    report::CollectiveRow row;
    row.group = shape.Name(("tp" + std::to_string(g)).c_str());
    row.group_size = 2;
    row.op = "AllReduce";
    row.count = 100;
    row.skew.p50 = Nanos(static_cast<int64_t>(random.Next() % 1'000'000));
    row.skew_counts = {0, 0, 3, 9, 40, 30, 12, 4, 0, 2};
    row.last_arrivals.push_back({RankId(2 * g), 60});
    report.collectives.push_back(std::move(row));
  }
  report.slowdown.step_ns = kStep;
  report.slowdown.ideal_step_ns = 0.9 * kStep;
  report.slowdown.ratio = 1 / 0.9;
  report.slowdown.lost_ns_per_step = 0.1 * kStep;
  report.slowdown.noise_floor_ns_per_step = 1e5;
  report::StragglerRow found{
      .kind = "rank", .ranks = {RankId(kSlowRank)}, .hosts = {shape.Name("n0")}, .cause = "gpu_clock"};
  found.lost_ns_per_step = 0.1 * kStep;
  found.gain_ns_per_step = 0.099 * kStep;
  found.verdict = "sure";
  found.affected_steps = 1;
  found.evidence = {shape.Name("its kernels take longer")};
  found.action = shape.Name("look at the clocks");
  report.stragglers.push_back(std::move(found));
  AddSteps(shape, random, report);
  AddWaiting(shape, report);
  return report;
}

// Writes to stdout.
class Out final : public ByteSink {
 public:
  absl::Status Append(std::string_view bytes) override {
    return std::fwrite(bytes.data(), 1, bytes.size(), stdout) == bytes.size()
               ? absl::OkStatus()
               : absl::UnavailableError("cannot write to stdout");
  }
  absl::Status Finish() override {
    return std::fflush(stdout) == 0 ? absl::OkStatus() : absl::UnavailableError("cannot write to stdout");
  }
};

int Main(int argc, char** argv) {
  Shape shape;
  for (int k = 1; k < argc; ++k) {
    if (std::strcmp(argv[k], "--hostile") == 0) shape.hostile = true;
    if (std::strcmp(argv[k], "--ranks") == 0 && k + 1 < argc) shape.ranks = std::max(8, std::atoi(argv[++k]));
    if (std::strcmp(argv[k], "--steps") == 0 && k + 1 < argc) shape.steps = std::max(1, std::atoi(argv[++k]));
  }
  SplitMix random(1);
  capture::Capture capture = MakeCapture(shape, random);
  capture::Finish(capture);
  report::Analysis analysis = report::Analyze(capture);
  analysis.report = MakeReport(shape, capture, random);
  Out out;
  absl::Status written =
      web::WritePage({.capture = capture, .analysis = analysis, .source = shape.Name("made-up")}, out);
  if (written.ok()) written = out.Finish();
  if (written.ok()) return 0;
  std::fprintf(stderr, "large_page: %s\n", std::string(written.message()).c_str());
  return 1;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) { return lockstep::Main(argc, argv); }
