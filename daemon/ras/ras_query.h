// Asks NCCL's RAS on this node for its view of a job. It returns the answer as RAS sent it, without reading
// it: formats/ras does that in a program without the daemon's rights.
//
// Another user's program may listen on RAS's port. Nothing is sent to it: the kernel's table of sockets must
// show the rank's user before the connection, and again after the first answer.
#ifndef LOCKSTEP_DAEMON_RAS_RAS_QUERY_H_
#define LOCKSTEP_DAEMON_RAS_RAS_QUERY_H_

#include <sys/types.h>

#include <cstddef>

#include "base/time.h"
#include "daemon/ras/ras_place.h"
#include "daemon/ras/tcp_table.h"
#include "lockstep/v1/progress.pb.h"

namespace lockstep::daemon {

struct RasLimits {
  Nanos within = Nanos::Seconds(4);  // for everything
  // For the first line. All processes of a node listen on one port, and the kernel picks one, which may be
  // stopped. A new connection reaches another one.
  Nanos first_line_within = Nanos::Millis(400);
  int most_connections = 4;
  size_t answer_bytes = 1u << 20;
};

// Blocks until RAS has answered, at most `limits.within`. `owner` is the rank's user. The result has a
// problem or an answer.
v1::RasAnswer AskRas(const RasPlace& place, uid_t owner, const RasLimits& limits,
                     const TcpTableReader& table);

}  // namespace lockstep::daemon

#endif  // LOCKSTEP_DAEMON_RAS_RAS_QUERY_H_
