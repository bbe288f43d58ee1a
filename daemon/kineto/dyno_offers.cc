#include "daemon/kineto/dyno_offers.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace lockstep::daemon {

DynoTriggered DynoOffers::Trigger(uid_t caller, const DynoTrigger& trigger) {
  AuditLog::Call call = audit_.Begin("dyno", LocalCaller(caller),
                                     {{"job", trigger.job == 0 ? "" : absl::StrCat(trigger.job)},
                                      {"pids", absl::StrJoin(trigger.pids, ",")}});
  DynoTriggered done;
  for (const KinetoPoll& poll : processes_.Match(caller, trigger.job, trigger.pids)) {
    if (done.matched.size() >= static_cast<size_t>(trigger.most)) break;
    done.matched.push_back(poll.process.pid);
    if (!poll.idle || captures_.Holds(poll.process)) {
      ++done.busy;
      continue;
    }
    done.triggered.push_back(poll.process.pid);
    offers_[poll.process] = {clock_.Monotonic(), false};
    server_.Offer(poll.process, trigger.config);
  }
  call.End("ok", "", {{"captured_ranks", done.triggered.size()}});
  log_.Info("dyno_trigger", {{"uid", caller},
                             {"matched", done.matched.size()},
                             {"triggered", done.triggered.size()},
                             {"busy", done.busy}});
  return done;
}

void DynoOffers::OnPoll(const KinetoPoll& poll) {
  const auto offer = offers_.find(poll.process);
  if (offer == offers_.end()) return;
  offer->second.delivered = offer->second.delivered || poll.offered;
  // The offer ends if it was taken, if an old client (which never reports busy) received it, or after
  // kOfferLifetime.
  const bool taken = offer->second.delivered && (!poll.idle || !poll.reports_busy);
  if (taken || clock_.Monotonic() - offer->second.since > kOfferLifetime) End(poll.process);
}

void DynoOffers::End(const ProcessId& process) {
  if (offers_.erase(process) > 0) server_.Withdraw(process);
}

}  // namespace lockstep::daemon
