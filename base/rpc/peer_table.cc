#include "base/rpc/peer_table.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace lockstep::rpc {
namespace {

// Returns 0 for a descriptor that is closed or not a socket.
uint64_t CookieOf(int fd) {
  uint64_t cookie = 0;
  socklen_t length = sizeof(cookie);
  return ::getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &length) == 0 ? cookie : 0;
}

}  // namespace

PeerTable::PeerTable(PeerLimits limits)
    : limits_(limits), idle_(::eventfd(0, EFD_CLOEXEC)), spare_(::fcntl(idle_.get(), F_DUPFD_CLOEXEC, 0)) {}

bool PeerTable::Add(int fd, const std::string& peer, const Source& source, MonoTime now) {
  // The peer has closed an earlier connection from the same port.
  if (const auto earlier = by_peer_.find(peer); earlier != by_peer_.end()) {
    Remove(earlier->second->trusted ? trusted_ : strangers_, earlier->second);
  }
  if (!MakeRoomFor(source, now)) return false;
  strangers_.push_back({.fd = fd, .cookie = CookieOf(fd), .peer = peer, .source = source});
  by_peer_[peer] = std::prev(strangers_.end());
  ++sources_[source].connections;
  ++added_since_check_;
  return true;
}

bool PeerTable::Full(const Source& source) const {
  const auto own = sources_.find(source);
  return own != sources_.end() && own->second.connections >= limits_.strangers_per_source;
}

bool PeerTable::MakeRoomFor(const Source& source, MonoTime now) {
  SourceState& state = StateOf(source, now);
  if (state.closed >= limits_.closed_per_second) return false;
  const auto all_full = [this] { return strangers_.size() >= limits_.strangers; };
  if (!Full(source) && !all_full()) return true;
  // A check looks at every connection, so it waits until there are many new ones.
  if (added_since_check_ >= (strangers_.size() + trusted_.size()) / 4) RemoveEnded();
  if (!Full(source) && !all_full()) return true;
  ++state.closed;
  if (Full(source)) CloseOldestOf(source);
  if (all_full()) CloseOneStranger();
  return true;
}

PeerTable::SourceState& PeerTable::StateOf(const Source& source, MonoTime now) {
  const auto this_second = [now](const SourceState& s) { return now - s.second < Nanos::Seconds(1); };
  if (sources_.size() > 2 * limits_.strangers) {
    absl::erase_if(sources_, [&](const auto& entry) {
      return entry.second.connections == 0 && !this_second(entry.second);
    });
  }
  SourceState& state = sources_[source];
  if (!this_second(state)) {
    state.second = now;
    state.closed = 0;
  }
  return state;
}

void PeerTable::CloseOneStranger() {
  if (strangers_.empty()) return;
  const auto fewer = [](const auto& a, const auto& b) { return a.second.connections < b.second.connections; };
  CloseOldestOf(std::max_element(sources_.begin(), sources_.end(), fewer)->first);
}

void PeerTable::CloseOldestOf(const Source& source) {
  const bool closed = Close(std::find_if(strangers_.begin(), strangers_.end(),
                                         [&](const Connection& c) { return c.source == source; }));
  if (closed) ++displaced_;
}

bool PeerTable::Close(Connections::iterator stranger) {
  bool open = false;
  // The owner may close the descriptor, and its number may be reused, at any moment. The duplicate stays the
  // same socket, so the check and the shutdown concern one socket.
  if (::dup3(stranger->fd, spare_.get(), O_CLOEXEC) >= 0) {
    open = CookieOf(spare_.get()) == stranger->cookie && ::shutdown(spare_.get(), SHUT_RDWR) == 0;
    // Drops the reference to the socket.
    ::dup3(idle_.get(), spare_.get(), O_CLOEXEC);
  }
  Remove(strangers_, stranger);
  return open;
}

void PeerTable::NoteRefused(const std::string& peer, MonoTime now) {
  const auto found = by_peer_.find(peer);
  if (found == by_peer_.end() || found->second->trusted) return;
  const Connections::iterator connection = found->second;
  if (++connection->refused_calls < limits_.refused_calls) return;
  // Each such connection has cost as much as several that were displaced.
  StateOf(connection->source, now).closed += limits_.closed_per_second / 10;
  ++closed_for_calls_;
  Close(connection);
}

absl::Status PeerTable::Trust(const std::string& peer, std::optional<uid_t> user) {
  const auto found = by_peer_.find(peer);
  if (found == by_peer_.end() || found->second->trusted) return absl::OkStatus();
  const Connections::iterator connection = found->second;
  if (user) {
    size_t& connections = trusted_of_user_[*user];
    if (connections >= limits_.trusted_per_user) RemoveEndedOf(trusted_);
    if (trusted_of_user_[*user] >= limits_.trusted_per_user) {
      return absl::ResourceExhaustedError(
          absl::StrCat("user ", *user, " has ", limits_.trusted_per_user,
                       " connections to this server, and one user may have no "
                       "more: end some of their commands"));
    }
    ++trusted_of_user_[*user];
  }
  Uncount(connection->source);
  connection->trusted = true;
  connection->user = user;
  trusted_.splice(trusted_.end(), strangers_, connection);
  return absl::OkStatus();
}

PeerTable::Source PeerTable::SourceOf(const std::string& peer) const {
  const auto found = by_peer_.find(peer);
  return found == by_peer_.end() ? "" : found->second->source;
}

void PeerTable::RemoveEnded() {
  added_since_check_ = 0;
  RemoveEndedOf(strangers_);
  RemoveEndedOf(trusted_);
}

void PeerTable::RemoveEndedOf(Connections& list) {
  for (auto connection = list.begin(); connection != list.end();) {
    const bool open = CookieOf(connection->fd) == connection->cookie;
    connection = open ? std::next(connection) : Remove(list, connection);
  }
}

PeerTable::Connections::iterator PeerTable::Remove(Connections& list, Connections::iterator connection) {
  by_peer_.erase(connection->peer);
  if (!connection->trusted) Uncount(connection->source);
  if (connection->user) {
    const auto of_user = trusted_of_user_.find(*connection->user);
    if (--of_user->second == 0) trusted_of_user_.erase(of_user);
  }
  return list.erase(connection);
}

void PeerTable::Uncount(const Source& source) { --sources_.at(source).connections; }

}  // namespace lockstep::rpc
