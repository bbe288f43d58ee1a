#include "base/tls/openssl.h"

#include <openssl/err.h>
#include <openssl/pem.h>

namespace lockstep::tls {
namespace {

// Refuses a passphrase, so that OpenSSL never asks for one at the terminal.
int NoPassphrase(char* /*buffer*/, int /*size*/, int /*writing*/, void* /*data*/) { return -1; }

}  // namespace

OwnBio ReaderOf(std::string_view bytes) {
  return OwnBio(BIO_new_mem_buf(bytes.data(), static_cast<int>(bytes.size())));
}

std::string TextOf(BIO* memory) {
  char* text = nullptr;
  const long size = BIO_get_mem_data(memory, &text);
  return size > 0 ? std::string(text, static_cast<size_t>(size)) : std::string();
}

std::string LastError() {
  const unsigned long error = ERR_peek_last_error();
  ERR_clear_error();
  const char* text = error == 0 ? nullptr : ERR_reason_error_string(error);
  return text == nullptr ? "unknown error" : text;
}

OwnCertificate CertificateOfPem(std::string_view pem) {
  return OwnCertificate(PEM_read_bio_X509(ReaderOf(pem).get(), nullptr, &NoPassphrase, nullptr));
}

OwnKey KeyOfPem(std::string_view pem) {
  return OwnKey(PEM_read_bio_PrivateKey(ReaderOf(pem).get(), nullptr, &NoPassphrase, nullptr));
}

OwnChain CertificatesOfPem(std::string_view pem, int most) {
  const OwnBio reader = ReaderOf(pem);
  OwnChain chain(sk_X509_new_null());
  while (sk_X509_num(chain.get()) <= most) {
    X509* const next = PEM_read_bio_X509(reader.get(), nullptr, &NoPassphrase, nullptr);
    if (next == nullptr) break;
    sk_X509_push(chain.get(), next);
  }
  ERR_clear_error();  // the end of the text is an error for OpenSSL
  return chain;
}

std::string PemOf(X509* certificate) {
  const OwnBio out(BIO_new(BIO_s_mem()));
  return PEM_write_bio_X509(out.get(), certificate) == 1 ? TextOf(out.get()) : "";
}

std::string PemOf(EVP_PKEY* key) {
  const OwnBio out(BIO_new(BIO_s_mem()));
  return PEM_write_bio_PrivateKey(out.get(), key, nullptr, nullptr, 0, nullptr, nullptr) == 1
             ? TextOf(out.get())
             : "";
}

}  // namespace lockstep::tls
