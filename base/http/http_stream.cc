#include "base/http/http_stream.h"

#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace lockstep {
namespace {

class Plain final : public HttpStream {
 public:
  explicit Plain(Fd socket) : socket_(std::move(socket)) {}
  int fd() const override { return socket_.get(); }
  bool wants_to_write() const override { return false; }
  ssize_t Read(char* to) override { return recv(socket_.get(), to, kMostRead, 0); }
  ssize_t Write(const char* from, size_t size) override {
    return send(socket_.get(), from, size, MSG_NOSIGNAL);
  }
  ssize_t WriteFile(int file, uint64_t offset, size_t most) override {
    auto at = static_cast<off_t>(offset);
    return sendfile(socket_.get(), file, &at, most);
  }
  bool End() override { return shutdown(socket_.get(), SHUT_WR) == 0; }
  std::string PeerChain() const override { return ""; }

 private:
  const Fd socket_;
};

class Tls final : public HttpStream {
 public:
  Tls(Fd socket, std::unique_ptr<tls::TlsConnection> tls)
      : socket_(std::move(socket)), tls_(std::move(tls)) {}
  int fd() const override { return socket_.get(); }
  bool wants_to_write() const override { return tls_->wants_to_write(); }
  // A record of TLS has at most kMostRead bytes, so none of them stay behind in the connection.
  ssize_t Read(char* to) override { return tls_->Read(to, kMostRead); }
  ssize_t Write(const char* from, size_t size) override { return tls_->Write(from, size); }
  ssize_t WriteFile(int file, uint64_t offset, size_t most) override {
    char part[kMostRead];
    const ssize_t n = pread(file, part, std::min(most, sizeof(part)), static_cast<off_t>(offset));
    return n <= 0 ? n : tls_->Write(part, static_cast<size_t>(n));
  }
  bool End() override {
    tls_->End();
    return shutdown(socket_.get(), SHUT_WR) == 0;
  }
  std::string PeerChain() const override { return tls_->PeerChain(); }

 private:
  const Fd socket_;
  const std::unique_ptr<tls::TlsConnection> tls_;
};

}  // namespace

std::unique_ptr<HttpStream> PlainHttpStream(Fd socket) { return std::make_unique<Plain>(std::move(socket)); }

std::unique_ptr<HttpStream> TlsHttpStream(Fd socket, std::unique_ptr<tls::TlsConnection> tls) {
  return std::make_unique<Tls>(std::move(socket), std::move(tls));
}

}  // namespace lockstep
