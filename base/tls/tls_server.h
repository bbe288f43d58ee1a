// TlsServer makes the server's end of TLS connections over sockets, for HTTP. gRPC has its own.
#ifndef LOCKSTEP_BASE_TLS_TLS_SERVER_H_
#define LOCKSTEP_BASE_TLS_TLS_SERVER_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/log/log.h"
#include "base/mutex.h"

namespace lockstep::tls {

// A certificate, with intermediate ones, and its private key (both PEM).
struct KeyPair {
  std::string chain;
  std::string key;
  bool operator==(const KeyPair&) const = default;
};

// One connection over a socket that does not block. One thread uses it.
class TlsConnection {
 public:
  ~TlsConnection();
  TlsConnection(const TlsConnection&) = delete;
  TlsConnection& operator=(const TlsConnection&) = delete;

  // As recv(2) and send(2). After -1 with errno EAGAIN, call again with the same bytes when the socket is
  // readable, or writable if wants_to_write(). -1 with EPROTO: the peer does not follow the protocol.
  // Read returns 0 at the end of the stream.
  ssize_t Read(char* to, size_t size);
  ssize_t Write(const char* from, size_t size);
  bool wants_to_write() const { return wants_to_write_; }
  // Tells the peer that no more bytes follow.
  void End();
  // Returns the peer's certificate and its intermediate ones (PEM), of which the peer has proved that it has
  // the key. Nobody has checked them otherwise (Trust). Empty: the peer has presented none.
  std::string PeerChain() const;

 private:
  friend class TlsServer;
  struct State;
  explicit TlsConnection(std::unique_ptr<State> state);
  ssize_t Result(int returned);

  std::unique_ptr<State> state_;
  bool wants_to_write_ = false;
};

// Any thread.
class TlsServer {
 public:
  // Returns the certificate that the server has now.
  using Source = std::function<absl::StatusOr<KeyPair>()>;
  enum class ClientCertificates : uint8_t { kIgnored, kRequested };

  // `log` receives "tls_folder_refused" if a later certificate cannot be used. The earlier one then stays in
  // use. Errors are those of `source`, or kInvalidArgument if its first certificate cannot be used.
  static absl::StatusOr<std::shared_ptr<TlsServer>> Make(Source source, ClientCertificates clients,
                                                         std::shared_ptr<const Clock> clock, LogSink log);
  ~TlsServer();

  // The handshake takes place during the first reads. `socket` outlives the connection, and stays open after
  // it. kInternal: OpenSSL has no memory.
  absl::StatusOr<std::unique_ptr<TlsConnection>> Accept(int socket);

 private:
  struct Context;
  TlsServer(Source source, ClientCertificates clients, std::shared_ptr<const Clock> clock, LogSink log);
  // Reads the source again, at most once per second.
  absl::Status Refresh() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Source source_;
  const ClientCertificates clients_;
  const std::shared_ptr<const Clock> clock_;
  const LogSink log_;
  Mutex mutex_;
  std::unique_ptr<Context> context_ ABSL_GUARDED_BY(mutex_);  // null until the first certificate
  KeyPair pair_ ABSL_GUARDED_BY(mutex_);                      // of the last look, which context_ may not have
  MonoTime looked_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::tls

#endif  // LOCKSTEP_BASE_TLS_TLS_SERVER_H_
