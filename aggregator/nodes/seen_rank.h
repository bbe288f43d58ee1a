// Identities of what the daemons report: a daemon, a job, and a rank on its daemon.
#ifndef LOCKSTEP_AGGREGATOR_NODES_SEEN_RANK_H_
#define LOCKSTEP_AGGREGATOR_NODES_SEEN_RANK_H_

#include <compare>
#include <cstdint>
#include <string>

#include "lockstep/v1/common.pb.h"

namespace lockstep::aggregator {

// Identifies a daemon process: its node and its own random number.
struct DaemonKey {
  std::string node_id;
  uint64_t session = 0;
  auto operator<=>(const DaemonKey&) const = default;
};

// A job's name and its user, so that jobs of two users never merge.
struct JobKey {
  std::string job;
  uint32_t uid = 0;
  auto operator<=>(const JobKey&) const = default;
};

struct SeenRank {
  DaemonKey daemon;
  std::string host_name;
  v1::Rank rank;
};

}  // namespace lockstep::aggregator

#endif  // LOCKSTEP_AGGREGATOR_NODES_SEEN_RANK_H_
