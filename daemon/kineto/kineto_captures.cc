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
// Number of idle polls after T0 that prove that the profiler dropped the request. One poll may have been
// under way.
constexpr uint32_t kIdlePollsBeforeDrop = 2;

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
  // Two polls, the warm-up, and a tick of the profiler's thread at either end.
  return std::min(interval * 2 + kKinetoWarmup + kKinetoTick * 2, limits_.longest_lead);
}

void KinetoCaptures::SendState(const ProcessId& process, const Member& member, ring::ClientState state,
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
  ports_.SendState(process, message);
}

void KinetoCaptures::Fail(const ProcessId& process, Member& member, const std::string& text) {
  StopOffering(process, member);
  member.stage = Stage::kFinished;
  SendState(process, member, ring::ClientState::kFailed, text);
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
  // A process that polled within its interval and was idle counts as armed. Any other must poll once more.
  const Nanos interval = member.client.interval == Nanos() ? limits_.usual_interval : member.client.interval;
  const Nanos silent = clock_.Monotonic() - member.client.last.at;
  if (member.client.last.idle && silent <= interval + interval / 2 + kKinetoTick) {
    member.stage = Stage::kArmed;
    SendState(process, member, ring::ClientState::kArmed);
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
  member.next_progress = member.t1 + limits_.progress_interval;
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
    member.stage = Stage::kFinished;
  } else if (member.stage == Stage::kOffered && !member.delivered) {
    Fail(process, member, "the capture was stopped before the profiler polled for the request");
  } else if (member.stage == Stage::kWaiting) {
    Fail(process, member, "the capture was stopped before its iterations began");
  }
  // Its profiler cannot be stopped. A recording that has begun ends at T1.
  return true;
}

void KinetoCaptures::MarkTaken(const ProcessId& process, Member& member) {
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
        SendState(poll.process, member, ring::ClientState::kArmed);
      } else if (!std::exchange(member.busy_reported, true)) {
        SendState(poll.process, member, ring::ClientState::kIdle, kBusy);
      }
      return;
    case Stage::kOffered:
      return OnPollWhileOffered(poll.process, member, poll);
    case Stage::kWaiting:
      if (!poll.idle) CaptureIterations(poll.process, member);
      return;
    case Stage::kTaken:
    case Stage::kCapturing:
      return OnPollWhileRunning(poll.process, member, poll);
    case Stage::kArmed:
    case Stage::kFinished:
      return;
  }
}

void KinetoCaptures::OnPollWhileOffered(const ProcessId& process, Member& member, const KinetoPoll& poll) {
  if (!member.delivered && !poll.offered && poll.busy) member.busy_before = true;
  member.delivered = member.delivered || poll.offered;
  if (member.delivered && member.iterations) return WaitForIteration(process, member);
  // Several polls may be merged into `poll`. The newest decides; an older busy poll counts only if the
  // process already had the request.
  if (member.delivered && !poll.idle) return MarkTaken(process, member);
  const bool after_t0 = poll.at >= member.t0;
  if (!member.delivered || !after_t0 || !poll.reports_busy) return;
  member.idle_polls_after_t0 += poll.polls;
  if (member.idle_polls_after_t0 < kIdlePollsBeforeDrop) return;
  Fail(process, member,
       "its profiler received the request and dropped it: the start was too near, it waits for the "
       "iterations of an earlier request, or it is disabled; KINETO_LOG_LEVEL=1 logs the reason");
}

void KinetoCaptures::WaitForIteration(const ProcessId& process, Member& member) {
  StopOffering(process, member);
  member.stage = Stage::kWaiting;
  member.window.start = clock_.Realtime();
  SendState(process, member, ring::ClientState::kWaiting);
  if (!member.client.last.idle) CaptureIterations(process, member);
}

void KinetoCaptures::CaptureIterations(const ProcessId& process, Member& member) {
  member.stage = Stage::kCapturing;
  member.t1 = clock_.Monotonic();
  member.next_progress = member.t1 + limits_.progress_interval;
  SendState(process, member, ring::ClientState::kCapturing);
}

void KinetoCaptures::OnPollWhileRunning(const ProcessId& process, Member& member, const KinetoPoll& poll) {
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
  if (it == members_.end() || it->second.file.number != file_number || it->second.stage == Stage::kFinished)
    return;
  Member& member = it->second;
  if (member.iterations && stage != KinetoFileStage::kNone) {
    // The iterations may have begun and ended between two polls.
    if (member.stage == Stage::kOffered) WaitForIteration(process, member);
    if (member.stage == Stage::kWaiting) CaptureIterations(process, member);
    if (member.stage == Stage::kCapturing) member.window.end = std::min(member.window.end, clock_.Realtime());
  }
  // Clients that never report busy acknowledge a request only by their file.
  if (member.stage == Stage::kOffered && stage != KinetoFileStage::kNone) MarkTaken(process, member);
  if (stage != KinetoFileStage::kWhole) return;
  if (member.stage == Stage::kTaken) SendState(process, member, ring::ClientState::kCapturing);
  member.stage = Stage::kFinished;
  member.whole = true;
  SendState(process, member, ring::ClientState::kDone);
}

KinetoCaptures::FileResult KinetoCaptures::Take(const ProcessId& process) {
  const auto it = members_.find(process);
  if (it == members_.end()) return {};
  Member& member = it->second;
  StopOffering(process, member);
  const Nanos wait = member.iterations ? limits_.wait_for_iterations : limits_.wait_for_file;
  const FileResult taken{member.file, member.whole, std::max(member.t1, clock_.Monotonic()) + wait};
  members_.erase(it);
  return taken;
}

void KinetoCaptures::Forget(const ProcessId& process) {
  const FileResult taken = Take(process);
  if (taken.file.number != 0) ports_.DiscardFile(taken.file, taken.until);
}

void KinetoCaptures::TickOffered(const ProcessId& process, Member& member, MonoTime now) {
  if (now < Latest(member) || !member.offering) return;
  StopOffering(process, member);
  if (member.delivered) return;  // it may have taken the request; then its file appears
  const Nanos silent = now - member.client.last.at;
  if (member.busy_before)
    return Fail(process, member, absl::StrCat(kBusy, "; it was not idle again in time for the start"));
  Fail(process, member,
       absl::StrFormat("it did not poll for the request in time for the start (last poll %.3g s ago): the "
                       "process may be stopped, or the node overloaded",
                       silent.seconds()));
}

void KinetoCaptures::TickWaiting(const ProcessId& process, Member& member, MonoTime now) {
  if (now < member.t1) return;
  Fail(process, member,
       absl::StrCat("its profiler did not reach ",
                    member.iterations->first
                        ? absl::StrCat("iteration ", *member.iterations->first)
                        : absl::StrCat("a multiple of ", member.iterations->multiple, " iterations"),
                    " in time: it counts steps of torch.optim and calls of torch.profiler's step, of which "
                    "there were too few; give --duration instead, or a longer --trigger-timeout"));
}

void KinetoCaptures::Tick() {
  const MonoTime now = clock_.Monotonic();
  for (auto& [process, member] : members_) {
    if (member.stage == Stage::kWaiting) TickWaiting(process, member, now);
    if (member.stage == Stage::kOffered) TickOffered(process, member, now);
    if (member.stage == Stage::kTaken && now >= member.t0) {
      member.stage = Stage::kCapturing;
      SendState(process, member, ring::ClientState::kCapturing);
    }
    const bool awaited =
        member.stage == Stage::kCapturing || (member.stage == Stage::kOffered && member.delivered);
    if (awaited && now >= member.next_progress) {
      member.next_progress = now + limits_.progress_interval;
      SendState(process, member, ring::ClientState::kCapturing, kWritingFile);
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
    if (member.stage == Stage::kCapturing || (member.stage == Stage::kOffered && member.delivered))
      consider(member.next_progress);
  }
  return next;
}

}  // namespace lockstep::daemon
