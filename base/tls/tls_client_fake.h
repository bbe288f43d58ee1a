// A blocking TLS client for tests.
#ifndef LOCKSTEP_BASE_TLS_TLS_CLIENT_FAKE_H_
#define LOCKSTEP_BASE_TLS_TLS_CLIENT_FAKE_H_

#include <string>

#include "base/tls/openssl.h"
#include "base/tls/tls_server.h"

namespace lockstep::tls {

class FakeTlsClient {
 public:
  // Connects to 127.0.0.1 on the port of `address` ("HOST:PORT"), and trusts that authority. `own` is the
  // client's certificate; empty: none.
  FakeTlsClient(const std::string& address, const std::string& authority, const KeyPair& own = {}) {
    SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context_.get()), CertificateOfPem(authority).get());
    if (!own.chain.empty()) {
      SSL_CTX_use_certificate(context_.get(), CertificateOfPem(own.chain).get());
      SSL_CTX_use_PrivateKey(context_.get(), KeyOfPem(own.key).get());
    }
    const std::string target = "127.0.0.1" + address.substr(address.rfind(':'));
    connection_.reset(BIO_new_ssl_connect(context_.get()));
    BIO_set_conn_hostname(connection_.get(), target.c_str());
    if (BIO_do_connect(connection_.get()) != 1) error_ = LastError();
  }

  // Empty: the connection is established.
  const std::string& error() const { return error_; }
  void Send(const std::string& bytes) {
    BIO_write(connection_.get(), bytes.data(), static_cast<int>(bytes.size()));
  }
  // Receives until the server ends the stream.
  std::string Receive() {
    std::string out;
    char part[1 << 14];
    for (int n = 0; (n = BIO_read(connection_.get(), part, sizeof(part))) > 0;)
      out.append(part, static_cast<size_t>(n));
    return out;
  }

 private:
  const std::unique_ptr<SSL_CTX, Freed<SSL_CTX_free>> context_{SSL_CTX_new(TLS_client_method())};
  OwnBio connection_;
  std::string error_;
};

}  // namespace lockstep::tls

#endif  // LOCKSTEP_BASE_TLS_TLS_CLIENT_FAKE_H_
