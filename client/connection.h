// The client's side of the daemon's socket. It finds the socket and exchanges messages. Only the agent's
// thread calls it.
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

// The size of the largest message in either direction.
inline constexpr size_t kMaxMessageBytes = sizeof(ring::Hello);

struct Message {
  alignas(8) std::byte bytes[kMaxMessageBytes];
  size_t length = 0;
  Fd descriptor;

  ring::MessageType type() const;
  // Copies the message to `*out`. Fields of T that the message lacks are 0. Returns false if the message has
  // another type or is shorter than `least`, T's oldest length. It may be longer, because a newer daemon may
  // append fields.
  template <typename T>
  bool Read(ring::MessageType wanted, size_t least, T* out) const {
    if (type() != wanted || length < least) return false;
    *out = T{};
    std::memcpy(out, bytes, length < sizeof(T) ? length : sizeof(T));
    return true;
  }
  // Returns the message as T, or null if it has another type or is too short.
  template <typename T>
  const T* as(ring::MessageType wanted) const {
    return type() == wanted && length >= sizeof(T) ? reinterpret_cast<const T*>(bytes) : nullptr;
  }
};

class Connection {
 public:
  constexpr Connection() = default;

  // Connects to the first usable place that answers. Returns false if none does.
  bool Open(const SocketPlaces& places, uid_t uid);
  bool open() { return socket_.Use() >= 0; }
  void Close() { socket_.Close(); }
  void Forget() { socket_.Forget(); }

  // Returns false if the connection is lost; it is then closed.
  bool Send(const void* message, size_t bytes, int descriptor = -1);

  enum class Got : uint8_t { kMessage, kNothing, kLost };
  // Waits up to `limit` for one message. With kLost the connection is closed.
  Got Receive(Nanos limit, Message* out);

 private:
  Descriptor socket_;
};

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_CONNECTION_H_
