// PeerTable keeps the connections of a server and limits those of strangers.
//
// A peer is a stranger until a call on its connection has proved who it is (Trust). At a limit of strangers
// the table closes the oldest connection of a stranger in favour of the new one. A server therefore always
// accepts its owner. Trusted connections are limited per user only.
//
// Another component owns the connections (gRPC) and does not report their end. The table therefore keeps the
// kernel's cookie of each socket (SO_COOKIE). A descriptor that no longer has that cookie has ended.
//
// One thread at a time.
#ifndef LOCKSTEP_BASE_RPC_PEER_TABLE_H_
#define LOCKSTEP_BASE_RPC_PEER_TABLE_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "base/fd.h"
#include "base/time.h"

namespace lockstep::rpc {

struct PeerLimits {
  size_t strangers = 4096;            // connections of all strangers
  size_t strangers_per_source = 512;  // connections of the strangers of one source
  size_t closed_per_second = 50;  // connections closed on account of one source, before new ones are refused
  size_t refused_calls = 10;      // calls after which a stranger's connection is closed
  size_t trusted_per_user = 64;   // connections
};

class PeerTable {
 public:
  // An address, or a user of this machine, to which a stranger's connection is charged.
  using Source = std::string;

  explicit PeerTable(PeerLimits limits);

  // Adds the connection of a stranger. `peer` identifies it in Trust. The table does not own `fd`. Returns
  // false if the table has closed many connections of the source in this second. Then the caller closes the
  // new one, because a server spends much more on a connection that it serves for a moment.
  bool Add(int fd, const std::string& peer, const Source& source, MonoTime now);
  // Marks the peer as trusted. `user` is the peer's user, or nothing if it has the server's token. A peer
  // that is unknown or already trusted stays as it is. kResourceExhausted: the user has too many connections;
  // the peer stays a stranger.
  absl::Status Trust(const std::string& peer, std::optional<uid_t> user);
  // A call of the peer was refused. A stranger with many such calls loses the connection.
  void NoteRefused(const std::string& peer, MonoTime now);
  // Returns the source of the connection; empty for an unknown peer.
  Source SourceOf(const std::string& peer) const;
  // Closes one connection of a stranger: the oldest of the source that has the most. If there is no stranger,
  // nothing happens.
  void CloseOneStranger();
  // Removes the connections that have ended.
  void RemoveEnded();

  // Both counts may include connections that have ended.
  size_t strangers() const { return strangers_.size(); }
  size_t trusted() const { return trusted_.size(); }
  // Connections closed in favour of newer ones.
  uint64_t displaced() const { return displaced_; }
  // Connections closed because of refused calls.
  uint64_t closed_for_calls() const { return closed_for_calls_; }

 private:
  struct Connection {
    int fd;
    uint64_t cookie;
    std::string peer;
    Source source;
    bool trusted = false;
    std::optional<uid_t> user = std::nullopt;  // of a trusted connection without token
    size_t refused_calls = 0;
  };
  using Connections = std::list<Connection>;

  struct SourceState {
    size_t connections = 0;
    MonoTime second;    // begin of the second in which `closed` counts
    size_t closed = 0;  // connections that the table has closed on account of this source
  };

  bool Full(const Source& source) const;
  bool MakeRoomFor(const Source& source, MonoTime now);
  // Returns the state of the current second.
  SourceState& StateOf(const Source& source, MonoTime now);
  void CloseOldestOf(const Source& source);
  // Returns false if the connection had already ended.
  bool Close(Connections::iterator stranger);
  void RemoveEndedOf(Connections& list);
  Connections::iterator Remove(Connections& list, Connections::iterator connection);
  // Subtracts one stranger of the source.
  void Uncount(const Source& source);

  const PeerLimits limits_;
  // A socket is duplicated onto `spare_` before it is closed, which also works when the process has no free
  // descriptor. Otherwise `spare_` is a duplicate of `idle_`, which has no use of its own.
  const Fd idle_;
  const Fd spare_;
  Connections strangers_;  // oldest first
  Connections trusted_;
  absl::flat_hash_map<std::string, Connections::iterator> by_peer_;
  absl::flat_hash_map<Source, SourceState> sources_;
  absl::flat_hash_map<uid_t, size_t> trusted_of_user_;
  size_t added_since_check_ = 0;
  uint64_t displaced_ = 0;
  uint64_t closed_for_calls_ = 0;
};

}  // namespace lockstep::rpc

#endif  // LOCKSTEP_BASE_RPC_PEER_TABLE_H_
