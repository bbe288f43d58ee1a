// Owners of OpenSSL's objects, and its errors as text. Only base/tls includes it.
#ifndef LOCKSTEP_BASE_TLS_OPENSSL_H_
#define LOCKSTEP_BASE_TLS_OPENSSL_H_

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <ctime>
#include <memory>
#include <string>
#include <string_view>

#include "base/time.h"

namespace lockstep::tls {

template <auto Free>
struct Freed {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};

inline void FreeNames(GENERAL_NAMES* names) { GENERAL_NAMES_free(names); }
inline void FreeCertificates(STACK_OF(X509) * list) { sk_X509_pop_free(list, X509_free); }

using OwnBio = std::unique_ptr<BIO, Freed<BIO_free_all>>;
using OwnNumber = std::unique_ptr<BIGNUM, Freed<BN_free>>;
using OwnKey = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;
using OwnCertificate = std::unique_ptr<X509, Freed<X509_free>>;
using OwnRequest = std::unique_ptr<X509_REQ, Freed<X509_REQ_free>>;
using OwnCrl = std::unique_ptr<X509_CRL, Freed<X509_CRL_free>>;
using OwnRevoked = std::unique_ptr<X509_REVOKED, Freed<X509_REVOKED_free>>;
using OwnExtension = std::unique_ptr<X509_EXTENSION, Freed<X509_EXTENSION_free>>;
using OwnNames = std::unique_ptr<GENERAL_NAMES, Freed<FreeNames>>;
using OwnStore = std::unique_ptr<X509_STORE, Freed<X509_STORE_free>>;
using OwnStoreContext = std::unique_ptr<X509_STORE_CTX, Freed<X509_STORE_CTX_free>>;
using OwnChain = std::unique_ptr<STACK_OF(X509), Freed<FreeCertificates>>;
using OwnTime = std::unique_ptr<ASN1_TIME, Freed<ASN1_TIME_free>>;
using OwnInteger = std::unique_ptr<ASN1_INTEGER, Freed<ASN1_INTEGER_free>>;

inline constexpr int64_t kNanosPerSecond = 1'000'000'000;
inline time_t SecondsOf(HostTime time) { return static_cast<time_t>(time.ns() / kNanosPerSecond); }

// Returns a reader of `bytes`, which must outlive it.
OwnBio ReaderOf(std::string_view bytes);
// Returns what was written to a memory BIO.
std::string TextOf(BIO* memory);
// Returns OpenSSL's newest error of this thread and forgets all of them. "unknown error" if there is none.
std::string LastError();

// These return null if `pem` has no such object.
OwnCertificate CertificateOfPem(std::string_view pem);
OwnKey KeyOfPem(std::string_view pem);
// Returns the certificates of `pem` in their order, but no more than one above `most`.
OwnChain CertificatesOfPem(std::string_view pem, int most);
std::string PemOf(X509* certificate);
std::string PemOf(EVP_PKEY* key);

}  // namespace lockstep::tls

#endif  // LOCKSTEP_BASE_TLS_OPENSSL_H_
