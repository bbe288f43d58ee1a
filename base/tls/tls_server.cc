#include "base/tls/tls_server.h"

#include <openssl/err.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/tls/openssl.h"

namespace lockstep::tls {
namespace {

constexpr Nanos kReadAgain = Nanos::Seconds(1);
constexpr int kMostCertificates = 10;

using OwnSslContext = std::unique_ptr<SSL_CTX, Freed<SSL_CTX_free>>;
using OwnSsl = std::unique_ptr<SSL, Freed<SSL_free>>;

// Trust checks the certificate for each request. A refusal then has a sentence and a line in the audit log.
int AcceptEveryCertificate(int /*good*/, X509_STORE_CTX* /*chain*/) { return 1; }

bool UseChain(SSL_CTX* context, const std::string& pem) {
  const OwnChain chain = CertificatesOfPem(pem, kMostCertificates);
  const int length = sk_X509_num(chain.get());
  if (length == 0 || SSL_CTX_use_certificate(context, sk_X509_value(chain.get(), 0)) != 1) return false;
  for (int i = 1; i < length; ++i) {
    if (SSL_CTX_add1_chain_cert(context, sk_X509_value(chain.get(), i)) != 1) return false;
  }
  return true;
}

absl::StatusOr<OwnSslContext> ContextOf(const KeyPair& pair, TlsServer::ClientCertificates clients) {
  OwnSslContext context(SSL_CTX_new(TLS_server_method()));
  if (context == nullptr) return absl::InternalError(absl::StrCat("OpenSSL: ", LastError()));
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF);
  // A resumed session would not present the client's certificate again.
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context.get(), 0);
  if (clients == TlsServer::ClientCertificates::kRequested)
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, &AcceptEveryCertificate);
  const OwnKey key = KeyOfPem(pair.key);
  if (!UseChain(context.get(), pair.chain) || key == nullptr ||
      SSL_CTX_use_PrivateKey(context.get(), key.get()) != 1 || SSL_CTX_check_private_key(context.get()) != 1)
    return absl::InvalidArgumentError(
        absl::StrCat("the certificate or its key cannot be used: ", LastError()));
  return context;
}

}  // namespace

struct TlsConnection::State {
  OwnSsl ssl;
};

struct TlsServer::Context {
  OwnSslContext ssl;
};

TlsConnection::TlsConnection(std::unique_ptr<State> state) : state_(std::move(state)) {}
TlsConnection::~TlsConnection() { ERR_clear_error(); }

ssize_t TlsConnection::Result(int returned) {
  wants_to_write_ = false;
  if (returned > 0) return returned;
  switch (SSL_get_error(state_->ssl.get(), returned)) {
    case SSL_ERROR_WANT_READ:
      errno = EAGAIN;
      break;
    case SSL_ERROR_WANT_WRITE:
      wants_to_write_ = true;
      errno = EAGAIN;
      break;
    case SSL_ERROR_ZERO_RETURN:
      return 0;
    default:
      errno = EPROTO;
  }
  ERR_clear_error();
  return -1;
}

ssize_t TlsConnection::Read(char* to, size_t size) {
  return Result(SSL_read(state_->ssl.get(), to, static_cast<int>(std::min<size_t>(size, INT_MAX))));
}

ssize_t TlsConnection::Write(const char* from, size_t size) {
  return Result(SSL_write(state_->ssl.get(), from, static_cast<int>(std::min<size_t>(size, INT_MAX))));
}

void TlsConnection::End() {
  SSL_shutdown(state_->ssl.get());
  ERR_clear_error();
}

std::string TlsConnection::PeerChain() const {
  // On a server the chain does not contain the peer's own certificate.
  const OwnCertificate own(SSL_get1_peer_certificate(state_->ssl.get()));
  if (own == nullptr) return "";
  std::string text = PemOf(own.get());
  const STACK_OF(X509)* const rest = SSL_get_peer_cert_chain(state_->ssl.get());
  for (int i = 0; rest != nullptr && i < sk_X509_num(rest); ++i) text += PemOf(sk_X509_value(rest, i));
  return text;
}

TlsServer::TlsServer(Source source, ClientCertificates clients, std::shared_ptr<const Clock> clock,
                     LogSink log)
    : source_(std::move(source)), clients_(clients), clock_(std::move(clock)), log_(std::move(log)) {}
TlsServer::~TlsServer() = default;

absl::StatusOr<std::shared_ptr<TlsServer>> TlsServer::Make(Source source, ClientCertificates clients,
                                                           std::shared_ptr<const Clock> clock, LogSink log) {
  std::shared_ptr<TlsServer> server(
      new TlsServer(std::move(source), clients, std::move(clock), std::move(log)));
  MutexLock lock(&server->mutex_);
  if (absl::Status made = server->Refresh(); !made.ok()) return made;
  return server;
}

absl::Status TlsServer::Refresh() {
  const MonoTime now = clock_->Monotonic();
  if (context_ != nullptr && now - looked_ < kReadAgain) return absl::OkStatus();
  looked_ = now;
  absl::StatusOr<KeyPair> pair = source_();
  if (!pair.ok()) return pair.status();
  if (context_ != nullptr && *pair == pair_) return absl::OkStatus();
  pair_ = *std::move(pair);
  absl::StatusOr<OwnSslContext> made = ContextOf(pair_, clients_);
  if (!made.ok()) return made.status();
  context_ = std::make_unique<Context>(Context{*std::move(made)});
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<TlsConnection>> TlsServer::Accept(int socket) {
  auto state = std::make_unique<TlsConnection::State>();
  {
    MutexLock lock(&mutex_);
    if (const absl::Status fresh = Refresh(); !fresh.ok())
      log_(LogLevel::kError, "tls_folder_refused", {{"reason", fresh.message()}});
    state->ssl.reset(SSL_new(context_->ssl.get()));
  }
  if (state->ssl == nullptr || SSL_set_fd(state->ssl.get(), socket) != 1)
    return absl::InternalError(absl::StrCat("OpenSSL: ", LastError()));
  SSL_set_accept_state(state->ssl.get());
  return std::unique_ptr<TlsConnection>(new TlsConnection(std::move(state)));
}

}  // namespace lockstep::tls
