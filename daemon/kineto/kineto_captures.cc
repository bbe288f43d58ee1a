#include "daemon/kineto/kineto_captures.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/log/clean_text.h"

namespace lockstep::daemon {
namespace {

constexpr char kBusy[] = "its profiler is busy: it runs torch.profiler itself, or another on-demand trace";
constexpr char kWritingFile[] = "its profiler writes the trace";
// Idle again after it was handed the request: one question may have been under way.
constexpr uint32_t kIdlePollsThatTell = 2;

}  // namespace

void KinetoCaptures::Choose(const ProcessId& process, KinetoClient client, std::string session,
                            uint32_t framework) {
  Member& member = members_[process];
  member = {};
  member.client = std::move(client);
  member.session = std::move(session);
  member.framework = framework;
}

Nanos KinetoCaptures::Lead(const ProcessId& process) const {
  const auto member = members_.find(process);
  if (member == members_.end()) return Nanos();
  const Nanos interval = member->second.client.interval;
  if (interval == Nanos()) return limits_.longest_lead;
  // Two questions, the warm-up, and a tick of the profiler's thread at either end.
  return std::min(interval * 2 + kKinetoWarmup + kKinetoTick * 2, limits_.longest_lead);
}

void KinetoCaptures::Tell(const ProcessId& process, const Member& member, ring::ClientState state,
                          const std::string& text) {
  ring::State message{};
  message.header = {ring::kHandshakeMagic, ring::MessageType::kState, sizeof(message)};
  message.capture = member.number;
  message.state = state;
  if (member.iterations && state == ring::ClientState::kDone) {
    message.t0_realtime_ns = member.window.start.ns();
    message.t1_realtime_ns = std::max(member.window.start, member.window.end).ns();
  }
  const std::string cut = CleanText(text, sizeof(message.text) - 1);
  std::memcpy(message.text, cut.data(), cut.size());
  ports_.TellState(process, message);
}

void KinetoCaptures::Fail(const ProcessId& process, Member& member, const std::string& text) {
  StopOffering(process, member);
  member.stage = Stage::kOver;
  Tell(process, member, ring::ClientState::kFailed, text);
}

void KinetoCaptures::StopOffering(const ProcessId& process, Member& member) {
  if (std::exchange(member.offering, false)) ports_.Withdraw(process);
}

bool KinetoCaptures::OnArm(const ProcessId& process, const ring::Arm& message) {
  const auto it = members_.find(process);
  if (it == members_.end()) return false;
  Member& member = it->second;
  member.number = message.capture;
  member.activities = message.activities;
  // Who asked within its rhythm and was idle is there; everybody else has to ask once more.
  const Nanos interval = member.client.interval == Nanos() ? limits_.usual_interval : member.client.interval;
  const Nanos silent = clock_.Monotonic() - member.client.last.at;
  if (member.client.last.idle && silent <= interval + interval / 2 + kKinetoTick) {
    member.stage = Stage::kArmed;
    Tell(process, member, ring::ClientState::kArmed);
  }
  return true;
}

bool KinetoCaptures::OnStart(const ProcessId& process, const ring::Start& message) {
  const auto it = members_.find(process);
  if (it == members_.end()) return false;
  Member& member = it->second;
  member.window = {HostTime(message.t0_realtime_ns), HostTime(message.t1_realtime_ns)};
  const MonoTime now = clock_.Monotonic();
  member.t0 = now + (member.window.start - clock_.Realtime());
  member.t1 = now + (member.window.end - clock_.Realtime());
  member.next_word = member.t1 + limits_.between_words;
  Begin(process, member);
  return true;
}

bool KinetoCaptures::OnStartIterations(const ProcessId& process, const KinetoIterations& iterations,
                                       HostTime give_up) {
  const auto it = members_.find(process);
  if (it == members_.end()) return false;
  Member& member = it->second;
  member.iterations = iterations;
  member.window = {clock_.Realtime(), give_up};
  member.t0 = clock_.Monotonic();
  member.t1 = member.t0 + (give_up - clock_.Realtime());
  Begin(process, member);
  return true;
}

void KinetoCaptures::Begin(const ProcessId& process, Member& member) {
  auto config = MakeKinetoConfig({member.session, member.client.folder, member.window, member.iterations,
                                  member.activities, member.framework});
  if (!config.ok()) return Fail(process, member, std::string(config.status().message()));
  KinetoFileSpec spec;
  spec.process = process;
  spec.uid = member.client.last.uid;
  spec.gid = member.client.last.gid;
  spec.client_pid = member.client.client_pid;
  spec.folder = member.client.folder;
  spec.session = member.session;
  spec.not_before = member.window.start;
  member.file = ports_.WatchFile(std::move(spec));
  member.stage = Stage::kOffered;
  member.offering = true;
  ports_.Offer(process, *std::move(config));
}

bool KinetoCaptures::OnStop(const ProcessId& process, const ring::Stop& message) {
  const auto it = members_.find(process);
  if (it == members_.end()) return false;
  Member& member = it->second;
  StopOffering(process, member);
  if (message.abort != 0) {
    member.stage = Stage::kOver;
  } else if (member.stage == Stage::kOffered && !member.handed) {
    Fail(process, member, "the capture was stopped before it asked for the request");
  } else if (member.stage == Stage::kWaiting) {
    Fail(process, member, "the capture was stopped before its iterations came");
  }
  // Its profiler cannot be stopped: what it has begun comes at T1.
  return true;
}

void KinetoCaptures::BeTaken(const ProcessId& process, Member& member) {
  StopOffering(process, member);
  member.stage = Stage::kTaken;
  Tick();
}

void KinetoCaptures::OnPoll(const KinetoPoll& poll) {
  const auto it = members_.find(poll.process);
  if (it == members_.end()) return;
  Member& member = it->second;
  member.client.last = poll;
  switch (member.stage) {
    case Stage::kArming:
      if (poll.idle) {
        member.stage = Stage::kArmed;
        Tell(poll.process, member, ring::ClientState::kArmed);
      } else if (!std::exchange(member.busy_told, true)) {
        Tell(poll.process, member, ring::ClientState::kIdle, kBusy);
      }
      return;
    case Stage::kOffered:
      return WhileOffered(poll.process, member, poll);
    case Stage::kWaiting:
      if (!poll.idle) CaptureIterations(poll.process, member);
      return;
    case Stage::kTaken:
    case Stage::kCapturing:
      return WhileRunning(poll.process, member, poll);
    case Stage::kArmed:
    case Stage::kOver:
      return;
  }
}

void KinetoCaptures::WhileOffered(const ProcessId& process, Member& member, const KinetoPoll& poll) {
  if (!member.handed && !poll.offered && poll.busy) member.busy_before = true;
  member.handed = member.handed || poll.offered;
  if (member.handed && member.iterations) return WaitForIteration(process, member);
  // Several polls may lie in one: the newest tells, and an older busy one only if it was handed the request
  // before.
  if (member.handed && !poll.idle) return BeTaken(process, member);
  const bool after_t0 = poll.at >= member.t0;
  if (!member.handed || !after_t0 || !poll.tells_busy) return;
  member.idle_polls_after_t0 += poll.polls;
  if (member.idle_polls_after_t0 < kIdlePollsThatTell) return;
  Fail(process, member,
       "it was handed the request and dropped it: its profiler found the start too near, waits for the "
       "iterations of an earlier "
       "request, or has been switched off; its own log says more (KINETO_LOG_LEVEL=1)");
}

void KinetoCaptures::WaitForIteration(const ProcessId& process, Member& member) {
  StopOffering(process, member);
  member.stage = Stage::kWaiting;
  member.window.start = clock_.Realtime();
  Tell(process, member, ring::ClientState::kWaiting);
  if (!member.client.last.idle) CaptureIterations(process, member);
}

void KinetoCaptures::CaptureIterations(const ProcessId& process, Member& member) {
  member.stage = Stage::kCapturing;
  member.t1 = clock_.Monotonic();
  member.next_word = member.t1 + limits_.between_words;
  Tell(process, member, ring::ClientState::kCapturing);
}

void KinetoCaptures::WhileRunning(const ProcessId& process, Member& member, const KinetoPoll& poll) {
  if (!poll.idle || poll.at < member.t1) {
    member.idle_since.reset();
    return;
  }
  if (!member.idle_since) member.idle_since = poll.at;
  if (poll.at - *member.idle_since < limits_.idle_without_file) return;
  Fail(process, member,
       absl::StrCat("its profiler has ended and no file appeared as ", member.client.folder, "/",
                    KinetoFileName(member.session, member.client.client_pid),
                    ": torch.profiler may have cancelled it, or the folder is not writable for it"));
}

void KinetoCaptures::OnFile(const ProcessId& process, uint64_t file_number, KinetoFileStage stage) {
  const auto it = members_.find(process);
  if (it == members_.end() || it->second.file.number != file_number || it->second.stage == Stage::kOver)
    return;
  Member& member = it->second;
  if (member.iterations && stage != KinetoFileStage::kNone) {
    // Iterations may have come and gone between two questions.
    if (member.stage == Stage::kOffered) WaitForIteration(process, member);
    if (member.stage == Stage::kWaiting) CaptureIterations(process, member);
    if (member.stage == Stage::kCapturing) member.window.end = std::min(member.window.end, clock_.Realtime());
  }
  // A file is the acknowledgement of clients that never say that they are busy.
  if (member.stage == Stage::kOffered && stage != KinetoFileStage::kNone) BeTaken(process, member);
  if (stage != KinetoFileStage::kWhole) return;
  if (member.stage == Stage::kTaken) Tell(process, member, ring::ClientState::kCapturing);
  member.stage = Stage::kOver;
  member.whole = true;
  Tell(process, member, ring::ClientState::kDone);
}

KinetoCaptures::Taken KinetoCaptures::Take(const ProcessId& process) {
  const auto it = members_.find(process);
  if (it == members_.end()) return {};
  Member& member = it->second;
  StopOffering(process, member);
  const Nanos wait = member.iterations ? limits_.wait_for_iterations : limits_.wait_for_file;
  const Taken taken{member.file, member.whole, std::max(member.t1, clock_.Monotonic()) + wait};
  members_.erase(it);
  return taken;
}

void KinetoCaptures::Forget(const ProcessId& process) {
  const Taken taken = Take(process);
  if (taken.file.number != 0) ports_.DiscardFile(taken.file, taken.until);
}

void KinetoCaptures::TickOffered(const ProcessId& process, Member& member, MonoTime now) {
  if (now < Latest(member) || !member.offering) return;
  StopOffering(process, member);
  if (member.handed) return;  // it may have taken it; the file will tell
  const Nanos silent = now - member.client.last.at;
  if (member.busy_before)
    return Fail(process, member, absl::StrCat(kBusy, "; it was not idle again in time for the start"));
  Fail(process, member,
       absl::StrFormat("it did not ask for the request in time for the start (last heard of %.3g s ago): the "
                       "process may be stopped, or the "
                       "node overloaded",
                       silent.seconds()));
}

void KinetoCaptures::TickWaiting(const ProcessId& process, Member& member, MonoTime now) {
  if (now < member.t1) return;
  Fail(process, member,
       absl::StrCat("its profiler did not come to ",
                    member.iterations->first
                        ? absl::StrCat("iteration ", *member.iterations->first)
                        : absl::StrCat("a multiple of ", member.iterations->multiple, " iterations"),
                    " in time: it counts steps of torch.optim and calls of torch.profiler's step, and there "
                    "were none or too few; give "
                    "--duration instead, or a longer --trigger-timeout"));
}

void KinetoCaptures::Tick() {
  const MonoTime now = clock_.Monotonic();
  for (auto& [process, member] : members_) {
    if (member.stage == Stage::kWaiting) TickWaiting(process, member, now);
    if (member.stage == Stage::kOffered) TickOffered(process, member, now);
    if (member.stage == Stage::kTaken && now >= member.t0) {
      member.stage = Stage::kCapturing;
      Tell(process, member, ring::ClientState::kCapturing);
    }
    const bool awaited =
        member.stage == Stage::kCapturing || (member.stage == Stage::kOffered && member.handed);
    if (awaited && now >= member.next_word) {
      member.next_word = now + limits_.between_words;
      Tell(process, member, ring::ClientState::kCapturing, kWritingFile);
    }
  }
}

std::optional<MonoTime> KinetoCaptures::NextDeadline() const {
  std::optional<MonoTime> next;
  const auto consider = [&](MonoTime t) {
    if (!next || t < *next) next = t;
  };
  for (const auto& [process, member] : members_) {
    if (member.stage == Stage::kOffered && member.offering) consider(Latest(member));
    if (member.stage == Stage::kWaiting) consider(member.t1);
    if (member.stage == Stage::kTaken) consider(member.t0);
    if (member.stage == Stage::kCapturing || (member.stage == Stage::kOffered && member.handed))
      consider(member.next_word);
  }
  return next;
}

}  // namespace lockstep::daemon
