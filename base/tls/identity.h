// The holder of a certificate.
//
// A certificate of Lockstep has exactly one URI whose scheme is "lockstep", among its alternative names:
//   lockstep://aggregator     an aggregator
//   lockstep://node/ID        the daemon of the node with that id
//   lockstep://user/NAME      a user, by the name that the aggregator's system gives them
// Other names of the certificate have no meaning for Lockstep. An ordinary certificate of a site's authority
// therefore gives no access.
#ifndef LOCKSTEP_BASE_TLS_IDENTITY_H_
#define LOCKSTEP_BASE_TLS_IDENTITY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::tls {

enum class Holder : uint8_t { kAggregator, kNode, kUser };

struct Identity {
  Holder holder = Holder::kNode;
  std::string name;  // a node's id or a user's name; empty for an aggregator

  bool operator==(const Identity&) const = default;
};

// Returns whether a certificate can have this node's id or user's name. Such a name has 1 to 64 letters,
// digits and characters of "._-:@", and begins with a letter or a digit.
bool IsName(std::string_view name);

// "aggregator", "node" or "user".
const char* KindName(Holder holder);

// The host name that each certificate of an aggregator or node has besides the machine's. A program that
// checks host names, such as Prometheus, can expect it at every address.
inline constexpr char kHttpName[] = "lockstep";

// "lockstep://node/gpu-17".
std::string UriOf(const Identity& identity);
// Returns nothing if the URI is not one of the three above.
std::optional<Identity> IdentityOfUri(std::string_view uri);
// For messages: "node gpu-17", "user ann", "the aggregator".
std::string TextOf(const Identity& identity);

}  // namespace lockstep::tls

#endif  // LOCKSTEP_BASE_TLS_IDENTITY_H_
