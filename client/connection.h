// The client's end of the daemon's socket: finds it, says who we are, passes messages. Called by our thread
// only.
#ifndef LOCKSTEP_CLIENT_CONNECTION_H_
#define LOCKSTEP_CLIENT_CONNECTION_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/fd.h"
#include "base/socket_path.h"
#include "base/time.h"
#include "client/descriptor.h"
#include "client/record/text.h"
#include "wire/ring/handshake.h"

namespace lockstep::client {

// The greatest message, either way.
inline constexpr size_t kMaxMessageBytes = sizeof(ring::Hello);

struct Message {
  alignas(8) std::byte bytes[kMaxMessageBytes];
  size_t length = 0;
  Fd descriptor;

  ring::MessageType type() const;
  // The message with what it has of T's fields, the others 0; false when it is another type or shorter than
  // `least`, T's oldest length. Longer is fine: a newer daemon may append fields.
  template <typename T>
  bool Read(ring::MessageType wanted, size_t least, T* out) const {
    if (type() != wanted || length < least) return false;
    *out = T{};
    std::memcpy(out, bytes, length < sizeof(T) ? length : sizeof(T));
    return true;
  }
  // The message as T, or null when it is another type or too short.
  template <typename T>
  const T* as(ring::MessageType wanted) const {
    return type() == wanted && length >= sizeof(T) ? reinterpret_cast<const T*>(bytes) : nullptr;
  }
};

class Connection {
 public:
  constexpr Connection() = default;

  // Connects to the first usable place that answers. False when none does.
  bool Open(const SocketPlaces& places, uid_t uid);
  bool open() { return socket_.Use() >= 0; }
  void Close() { socket_.Close(); }
  void Forget() { socket_.Forget(); }

  // False: the connection is lost (and closed).
  bool Send(const void* message, size_t bytes, int descriptor = -1);

  enum class Got : uint8_t { kMessage, kNothing, kLost };
  // Waits up to `limit` for one message. kLost: closed.
  Got Receive(Nanos limit, Message* out);

 private:
  Descriptor socket_;
};

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_CONNECTION_H_
