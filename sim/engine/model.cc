#include "sim/engine/model.h"

#include <cmath>

#include "sim/engine/random.h"

namespace lockstep::sim {
namespace {

using scenario::Needs;
using scenario::Op;
using scenario::OpKind;

constexpr int64_t kMillion = 1'000'000;
// In noisy scenarios, the members of a collective leave it within this time.
constexpr uint64_t kExitSkewNs = 1500;
constexpr std::string_view kFaultNames[] = {"none", "slow_gpu", "host_stall", "slow_link", "copy"};

int64_t Scale(int64_t ns, int64_t ppm) {
  return static_cast<int64_t>(static_cast<__int128>(ns) * ppm / kMillion);
}

bool TouchesLink(const scenario::Scenario& s, uint32_t of_rank, const Op& op, uint32_t faulty) {
  const std::vector<uint32_t>& members = s.groups[op.group].members;
  if (scenario::NeedsOf(op.collective) == Needs::kPeer) {
    if (of_rank == faulty) return true;
    for (const scenario::Message& message : scenario::MessagesOf(op)) {
      if (members[message.peer] == faulty) return true;
    }
    return false;
  }
  for (uint32_t member : members) {
    if (member == faulty) return true;
  }
  return false;
}

bool Affected(const scenario::Scenario& s, uint32_t of_rank, const Op& op, FaultKind kind, uint32_t faulty) {
  switch (kind) {
    case FaultKind::kSlowGpu:
      return op.kind == OpKind::kKernel && of_rank == faulty;
    case FaultKind::kCopy:
      return op.kind == OpKind::kCopy && of_rank == faulty;
    case FaultKind::kSlowLink:
      return op.kind == OpKind::kCollective && TouchesLink(s, of_rank, op, faulty);
    default:
      return false;
  }
}

constexpr std::string_view kStepMark = "{step";  // in the name of a range, replaced by the step's number

// The steps of a rank's iteration, each from its mark to the next one.
struct StepSpan {
  uint32_t first;  // op after the mark
  uint32_t end;
  uint32_t thread;
};

std::vector<StepSpan> StepSpans(const scenario::Scenario& s, uint32_t rank) {
  const std::vector<Op>& ops = s.ranks[rank].program;
  std::vector<StepSpan> spans;
  uint32_t depth = 0;  // ranges of the step's thread that are open since its mark, itself included
  for (uint32_t i = 0; i < ops.size(); ++i) {
    const Op& op = ops[i];
    if (depth > 0) {
      if (op.kind == OpKind::kPush && op.thread == spans.back().thread) ++depth;
      if (op.kind == OpKind::kPop && op.thread == spans.back().thread) --depth;
    } else if (op.kind == OpKind::kPush && s.names[op.name].find(kStepMark) != std::string::npos) {
      if (!spans.empty()) spans.back().end = i;
      spans.push_back({i + 1, static_cast<uint32_t>(ops.size()), op.thread});
      depth = 1;
    }
  }
  return spans;
}

}  // namespace

std::vector<uint32_t> StallCalls(const scenario::Scenario& scenario, uint32_t rank) {
  const std::vector<Op>& ops = scenario.ranks[rank].program;
  std::vector<uint32_t> calls;
  const auto add_first_call = [&](uint32_t first, uint32_t end, auto accept) {
    for (uint32_t i = first; i < end; ++i) {
      if (ops[i].kind != OpKind::kCall || !accept(ops[i])) continue;
      calls.push_back(i);
      return true;
    }
    return false;
  };
  const auto any = [](const Op&) { return true; };
  for (const StepSpan& step : StepSpans(scenario, rank)) {
    const auto of_thread = [&](const Op& op) { return op.thread == step.thread; };
    if (!add_first_call(step.first, step.end, of_thread)) add_first_call(step.first, step.end, any);
  }
  if (calls.empty()) add_first_call(0, static_cast<uint32_t>(ops.size()), any);
  return calls;
}

std::string_view FaultName(FaultKind kind) { return kFaultNames[static_cast<int>(kind)]; }

bool FaultFromText(std::string_view text, FaultKind* out) {
  for (int i = 0; i < 5; ++i) {
    if (text != kFaultNames[i]) continue;
    *out = static_cast<FaultKind>(i);
    return true;
  }
  return false;
}

Nanos AffectedWork(const scenario::Scenario& scenario, FaultKind kind, uint32_t rank) {
  Nanos sum;
  for (const Op& op : scenario.ranks[rank].program) {
    if (Affected(scenario, rank, op, kind, rank) && op.service_time > Nanos()) sum += op.service_time;
  }
  return sum;
}

bool SizeFault(const scenario::Scenario& scenario, FaultKind kind, uint32_t rank, double size,
               Nanos healthy_step, Fault* out) {
  *out = {kind, rank, size};
  if (kind == FaultKind::kNone) return true;
  const auto extra = static_cast<int64_t>(std::llround(size * static_cast<double>(healthy_step.ns())));
  if (kind == FaultKind::kHostStall) {
    const auto stalls = static_cast<int64_t>(StallCalls(scenario, rank).size());
    out->extra = Nanos(stalls == 0 ? 0 : extra / stalls);
    return stalls > 0;
  }
  const int64_t work = AffectedWork(scenario, kind, rank).ns();
  if (work <= 0) return false;
  out->factor_ppm = static_cast<int64_t>(static_cast<__int128>(extra) * kMillion / work);
  return true;
}

Model::Model(const Program& program, const ModelSettings& settings) : program_(program), settings_(settings) {
  const std::vector<Op>& ops = program.ops();
  factor_ppm_.assign(ops.size(), 0);
  for (uint32_t i = 0; i < ops.size(); ++i) {
    if (Affected(*program.scenario, program.rank, ops[i], settings.fault.kind, settings.fault.rank))
      factor_ppm_[i] = settings.fault.factor_ppm;
    if (ops[i].kind == OpKind::kCall) call_ops_.push_back(i);
  }
  stalls_.assign(ops.size(), false);
  if (settings.fault.kind != FaultKind::kHostStall || settings.fault.rank != program.rank) return;
  for (uint32_t op : StallCalls(*program.scenario, program.rank)) stalls_[op] = true;
}

Nanos Model::Noise(uint32_t step, uint32_t op, Nanos service_time) const {
  const int64_t noise_ppm = program_.scenario->noise_ppm;
  if (noise_ppm == 0 || service_time <= Nanos()) return Nanos();
  if (program_.ops()[op].kind != OpKind::kCollective) {
    const uint64_t draw = Draw(settings_.seed, program_.rank, step, op, Purpose::kDuration);
    return Nanos(Scale(service_time.ns(), noise_ppm * NormalThousandths(draw) / 1000));
  }
  // The transfer is shared: all members have the same noise, and each leaves with a small delay of its own.
  // The noise of a kernel with several messages is that of its first one.
  const CollectivePlace& place = program_.Place(op, 0);
  const uint64_t shared = Draw(settings_.seed, program_.channels[place.channel].key, step, place.ordinal,
                               Purpose::kSharedDuration);
  const uint64_t exit = Draw(settings_.seed, program_.rank, step, op, Purpose::kExitSkew) % kExitSkewNs;
  return Nanos(Scale(service_time.ns(), noise_ppm * NormalThousandths(shared) / 1000) +
               static_cast<int64_t>(exit));
}

Nanos Model::ServiceTime(uint32_t step, uint32_t op) const {
  const Nanos service_time = program_.ops()[op].service_time;
  if (program_.ops()[op].IsHost()) return service_time;
  const Nanos noisy = service_time + Noise(step, op, service_time);
  const Nanos result =
      step < settings_.fault.from_step ? noisy : noisy + Nanos(Scale(noisy.ns(), factor_ppm_[op]));
  return service_time >= Nanos() && result < Nanos() ? Nanos() : result;
}

Nanos Model::Gap(uint32_t step, uint32_t op) const {
  Nanos gap = program_.ops()[op].gap;
  if (call_ops_.empty() || program_.ops()[op].kind != OpKind::kCall) return gap;
  if (stalls_[op] && step >= settings_.fault.from_step) gap += settings_.fault.extra;
  if (settings_.pause_ppm == 0) return gap;
  const uint64_t rank = program_.rank;
  if (PartsPerMillion(Draw(settings_.seed, rank, step, 0, Purpose::kPause)) >= settings_.pause_ppm)
    return gap;
  if (call_ops_[Draw(settings_.seed, rank, step, 0, Purpose::kPausePlace) % call_ops_.size()] != op)
    return gap;
  const uint64_t ppm = PartsPerMillion(Draw(settings_.seed, rank, step, 0, Purpose::kPauseLength));
  return gap + Nanos(Scale(settings_.pause.ns(), static_cast<int64_t>(2 * ppm)));
}

}  // namespace lockstep::sim
