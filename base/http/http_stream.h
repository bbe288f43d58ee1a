// HttpStream is the bytes of one HTTP connection: those of a socket, or those in TLS over it.
#ifndef LOCKSTEP_BASE_HTTP_HTTP_STREAM_H_
#define LOCKSTEP_BASE_HTTP_HTTP_STREAM_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/fd.h"
#include "base/tls/tls_server.h"

namespace lockstep {

// One thread uses it.
class HttpStream {
 public:
  // The most bytes that one Read returns.
  static constexpr size_t kMostRead = 16u << 10;

  virtual ~HttpStream() = default;
  virtual int fd() const = 0;
  // Returns true if the next call can only succeed when fd() is writable, even if it is a Read.
  virtual bool wants_to_write() const = 0;
  // As recv(2), send(2) and sendfile(2), without blocking. `to` has kMostRead bytes. A Read takes all bytes
  // that have arrived for it, up to kMostRead, so that fd() is readable again if there are more.
  virtual ssize_t Read(char* to) = 0;
  virtual ssize_t Write(const char* from, size_t size) = 0;
  // Sends up to `most` bytes of the file from `offset`. Returns 0 at the end of the file.
  virtual ssize_t WriteFile(int file, uint64_t offset, size_t most) = 0;
  // Tells the peer that no more bytes follow. The peer may still send. Returns false if the connection is
  // broken.
  virtual bool End() = 0;
  // See TlsConnection::PeerChain.
  virtual std::string PeerChain() const = 0;
};

std::unique_ptr<HttpStream> PlainHttpStream(Fd socket);
// `tls` is a connection over `socket`.
std::unique_ptr<HttpStream> TlsHttpStream(Fd socket, std::unique_ptr<tls::TlsConnection> tls);

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_HTTP_HTTP_STREAM_H_
