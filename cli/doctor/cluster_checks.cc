#include "cli/doctor/cluster_checks.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "aggregator/captures/selection.h"
#include "base/time.h"
#include "cli/common/values.h"
#include "lockstep/v1/control.pb.h"

namespace lockstep::cli {
namespace {

// With a larger bound, clocks say little about collectives, which take a few hundred microseconds.
constexpr Nanos kWideBound = Nanos::Millis(1);
constexpr double kSpoolNearlyFull = 0.8, kDiskNearlyFull = 0.05, kStoreNearlyFull = 0.9;
// Less than the size of a capture of some minutes.
constexpr uint64_t kLittleDisk = 1u << 30;
constexpr size_t kMostNamed = 8;
// A daemon normally registers once, and a rebooted node has a new daemon.
constexpr uint64_t kManyRegistrations = 10;

// Returns the last word of a text such as "lockstepd 0.1.0".
std::string ReleaseOf(const std::string& program) { return program.substr(program.rfind(' ') + 1); }

std::string Bytes(uint64_t bytes) {
  return bytes >= 1u << 30 ? absl::StrFormat("%.1f GiB", static_cast<double>(bytes) / (1u << 30))
                           : absl::StrFormat("%.1f MiB", static_cast<double>(bytes) / (1u << 20));
}

std::string Named(const std::vector<std::string>& names) {
  const auto end = names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kMostNamed));
  return absl::StrCat(
      absl::StrJoin(names.begin(), end, ", "),
      names.size() > kMostNamed ? absl::StrCat(" and ", names.size() - kMostNamed, " more") : "");
}

Finding CheckReleases(const v1::StatusReply& reply, const std::string& version) {
  std::map<std::string, std::vector<std::string>> who;
  who[ReleaseOf(reply.version().program())].push_back("the aggregator");
  who[version].push_back("this command");
  for (const v1::DaemonStatus& daemon : reply.daemons())
    who[ReleaseOf(daemon.version())].push_back(daemon.host_name());
  if (who.size() == 1) return {Verdict::kWorks, absl::StrCat("releases: all ", who.begin()->first)};
  std::vector<std::string> mix;
  for (const auto& [release, names] : who) mix.push_back(absl::StrCat(release, " (", Named(names), ")"));
  return {Verdict::kNote, absl::StrCat("releases: mixed: ", absl::StrJoin(mix, ", "),
                                       "; docs/install.md states which work together; finish the upgrade")};
}

Finding CheckProtocol(const v1::StatusReply& reply) {
  const v1::Version& ours = reply.version();
  std::vector<std::string> other;
  for (const v1::DaemonStatus& daemon : reply.daemons()) {
    if (!daemon.has_protocol()) continue;
    const v1::Version& theirs = daemon.protocol();
    if (theirs.protocol_min() != ours.protocol_min() || theirs.protocol_max() != ours.protocol_max()) {
      other.push_back(
          absl::StrCat(daemon.host_name(), " ", theirs.protocol_min(), "-", theirs.protocol_max()));
    }
  }
  const std::string spoken =
      absl::StrCat("protocol: the aggregator supports ", ours.protocol_min(), " to ", ours.protocol_max());
  if (other.empty()) return {Verdict::kWorks, absl::StrCat(spoken, ", as does every daemon")};
  return {Verdict::kNote,
          absl::StrCat(spoken, ", but these daemons differ: ", Named(other), "; install one release on all")};
}

void CheckDaemons(const v1::StatusReply& reply, std::vector<Finding>& findings) {
  if (reply.daemons().empty()) {
    findings.push_back({Verdict::kBroken,
                        "daemons: none is connected; on each node, set aggregator and token-file in "
                        "/etc/lockstep/lockstepd.conf and restart lockstepd"});
  } else {
    findings.push_back(
        {Verdict::kWorks, absl::StrCat("daemons: ", reply.daemons_size(),
                                       reply.daemons_size() == 1 ? " is" : " are", " connected")});
  }
  for (const v1::AbsentDaemon& absent : reply.aggregator().absent()) {
    findings.push_back(
        {Verdict::kBroken,
         absl::StrCat("daemon ", absent.host_name(), ": disconnected ",
                      absl::StrFormat("%.0f", Nanos(absent.away_ns()).seconds()),
                      " s ago; run there: systemctl status lockstepd, journalctl -u lockstepd")});
  }
}

void CheckUplink(const v1::DaemonStatus& daemon, std::vector<Finding>& findings) {
  const std::string who = absl::StrCat("daemon ", daemon.host_name(), ": ");
  if (!daemon.has_health()) return;
  const v1::DaemonHealth& health = daemon.health();
  if (health.spool_dropped_records() > 0) {
    findings.push_back(
        {Verdict::kBroken, absl::StrCat(who, health.spool_dropped_records(),
                                        " records were dropped from the spool: raise --spool-bytes (",
                                        Bytes(health.spool_limit_bytes()),
                                        "), or find out why the aggregator or the network is slow")});
  }
  if (health.spool_limit_bytes() > 0 &&
      static_cast<double>(health.spool_bytes()) >
          kSpoolNearlyFull * static_cast<double>(health.spool_limit_bytes())) {
    findings.push_back(
        {Verdict::kNote,
         absl::StrCat(who, "its spool holds ", Bytes(health.spool_bytes()), " of ",
                      Bytes(health.spool_limit_bytes()),
                      "; a full spool drops the oldest records: raise --spool-bytes, or capture less")});
  }
  if (health.registrations() > kManyRegistrations) {
    findings.push_back({Verdict::kNote, absl::StrCat(who, "it connected about ", health.registrations(),
                                                     " times: look for uplink_down in its log")});
  }
}

void CheckClocks(const v1::StatusReply& reply, std::vector<Finding>& findings) {
  Nanos widest;
  size_t known = 0;
  for (const v1::DaemonStatus& daemon : reply.daemons()) {
    const Nanos bound(daemon.clock_bound_ns());
    if (bound == Nanos()) {
      findings.push_back(
          {Verdict::kNote, absl::StrCat("clock ", daemon.host_name(),
                                        ": no exchange with the aggregator yet; if this persists, its port "
                                        "accepts connections but no calls")});
      continue;
    }
    ++known;
    widest = std::max(widest, bound);
    if (bound > kWideBound) {
      findings.push_back(
          {Verdict::kNote,
           absl::StrCat("clock ", daemon.host_name(), ": known within ", FormatDuration(bound),
                        " only, so shorter waits between hosts cannot be measured; the network "
                        "to the aggregator is slow or busy")});
    }
  }
  if (known > 0 && widest <= kWideBound)
    findings.push_back(
        {Verdict::kWorks, absl::StrCat("clocks: each node's is known within ", FormatDuration(widest))});
}

void CheckRanks(const v1::StatusReply& reply, std::vector<Finding>& findings) {
  struct Job {
    int32_t world = 0;
    std::set<int32_t> seen;
    std::set<std::string> clients;
  };
  std::map<std::pair<std::string, uint32_t>, Job> jobs;
  for (const v1::DaemonStatus& daemon : reply.daemons()) {
    for (const v1::Rank& rank : daemon.ranks()) {
      Job& job = jobs[{rank.job(), rank.uid()}];
      job.world = std::max(job.world, rank.world_size());
      job.seen.insert(rank.rank());
      if (!rank.client_version().empty()) job.clients.insert(rank.client_version());
    }
  }
  for (const auto& [key, job] : jobs) {
    const std::string who = absl::StrCat("job ", key.first, " (uid ", key.second, "): ");
    std::vector<int32_t> missing;
    for (int32_t rank = 0; rank < job.world; ++rank) {
      if (job.seen.count(rank) == 0) missing.push_back(rank);
    }
    if (missing.empty()) {
      findings.push_back(
          {Verdict::kWorks, absl::StrCat(who, "all ", job.seen.size(),
                                         job.seen.size() == 1 ? " rank is" : " ranks are", " registered")});
    } else {
      findings.push_back(
          {Verdict::kBroken,
           absl::StrCat(who, missing.size(), " of ", job.world,
                        " ranks never registered: ", aggregator::RankList(missing),
                        "; `lockstep status` on their nodes names the processes and the reason")});
    }
    if (job.clients.size() > 1) {
      findings.push_back(
          {Verdict::kNote,
           absl::StrCat(who, "its ranks have clients of several releases (", absl::StrJoin(job.clients, ", "),
                        "), because containers have their own; docs/install.md states which work together")});
    }
  }
  if (jobs.empty())
    findings.push_back(
        {Verdict::kNote,
         "jobs: no rank is registered; start jobs with `lockstep run`, and see `lockstep doctor "
         "--pid N` on a node"});
}

void CheckStore(const v1::AggregatorStatus& status, std::vector<Finding>& findings) {
  const uint64_t free = status.state_free_bytes(), total = status.state_total_bytes();
  const std::string room = absl::StrCat("state folder: ", Bytes(free), " of ", Bytes(total), " are free");
  if (total > 0 &&
      (free < kLittleDisk || static_cast<double>(free) < kDiskNearlyFull * static_cast<double>(total))) {
    findings.push_back(
        {Verdict::kBroken, absl::StrCat(room,
                                        "; captures fail on a full disk: lower --keep-bytes or "
                                        "--keep-age, or give --state-dir on another disk")});
  } else if (total > 0) {
    findings.push_back({Verdict::kWorks, room});
  }
  const std::string kept =
      absl::StrCat("captures: ", status.store_captures(), " of at most ", status.keep_captures(), ", ",
                   Bytes(status.store_bytes()), " of at most ", Bytes(status.keep_bytes()),
                   status.keep_age_ns() > 0
                       ? absl::StrFormat(", for %.1f days", Nanos(status.keep_age_ns()).seconds() / 86400)
                       : "");
  const bool full =
      static_cast<double>(status.store_bytes()) > kStoreNearlyFull * static_cast<double>(status.keep_bytes());
  findings.push_back(
      {full ? Verdict::kNote : Verdict::kWorks,
       absl::StrCat(
           kept, full ? "; the next captures delete the oldest: raise --keep-bytes, or fetch captures to keep"
                      : "")});
  if (status.keep_bytes() > free + status.store_bytes() && total > 0) {
    findings.push_back({Verdict::kNote,
                        absl::StrCat("captures: --keep-bytes allows ", Bytes(status.keep_bytes()),
                                     ", more than fits on the disk (", Bytes(free + status.store_bytes()),
                                     "): lower it, so that the oldest are deleted before the disk is full")});
  }
}

void CheckAccess(const v1::AggregatorStatus& status, std::vector<Finding>& findings) {
  const bool beyond =
      std::any_of(status.listen().begin(), status.listen().end(), [](const std::string& address) {
        constexpr const char* kHere[] = {"unix:", "127.", "localhost:", "[::1]:"};
        return std::none_of(std::begin(kHere), std::end(kHere),
                            [&](const char* here) { return address.rfind(here, 0) == 0; });
      });
  const std::string ports =
      absl::StrCat("access: listens on ", absl::StrJoin(status.listen(), ", "),
                   status.http().empty() ? "" : absl::StrCat(", pages and metrics on ", status.http()));
  findings.push_back({Verdict::kWorks, absl::StrCat(ports, "; callers authenticate by ",
                                                    status.token() ? "token" : "the socket's folder",
                                                    status.munge() ? " and MUNGE" : "")});
  if (beyond)
    findings.push_back({Verdict::kNote,
                        "access: connections are not encrypted (no TLS): use a private network or a "
                        "tunnel"});
  if (!status.audit()) {
    findings.push_back({Verdict::kNote, "audit log: off; --audit-log FILE records each call and its caller"});
  } else if (status.audit_lines_failed() > 0) {
    findings.push_back(
        {Verdict::kBroken,
         absl::StrCat("audit log: ", status.audit_lines_failed(),
                      " lines could not be written; the aggregator's log has the reason (audit_failed)")});
  } else {
    findings.push_back({Verdict::kWorks, "audit log: written"});
  }
}

}  // namespace

std::vector<Finding> CheckCluster(const v1::StatusReply& reply, const std::string& version) {
  std::vector<Finding> findings;
  findings.push_back(CheckReleases(reply, version));
  findings.push_back(CheckProtocol(reply));
  CheckDaemons(reply, findings);
  for (const v1::DaemonStatus& daemon : reply.daemons()) CheckUplink(daemon, findings);
  CheckClocks(reply, findings);
  CheckRanks(reply, findings);
  if (reply.has_aggregator()) {
    CheckStore(reply.aggregator(), findings);
    CheckAccess(reply.aggregator(), findings);
  } else {
    findings.push_back(
        {Verdict::kNote,
         "aggregator: it reports neither disk nor access, because its release is older than this command"});
  }
  return findings;
}

}  // namespace lockstep::cli
