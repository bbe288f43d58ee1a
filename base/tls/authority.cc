#include "base/tls/authority.h"

#include <arpa/inet.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/tls/openssl.h"

namespace lockstep::tls {
namespace {

constexpr Nanos kAuthorityLifetime = Nanos::Seconds(86'400) * 3650;
// Clocks of two hosts may differ by this much.
constexpr Nanos kBackdating = Nanos::Seconds(300);
// The validity of an authority of a secret is fixed, so that all programs derive the same certificate.
constexpr HostTime kSecretFrom{1'767'225'600 * kNanosPerSecond};   // 2026-01-01
constexpr HostTime kSecretUntil{4'102'444'800 * kNanosPerSecond};  // 2100-01-01
constexpr int kSerialBits = 127;

absl::Status Failed(const char* what) {
  return absl::InternalError(absl::StrCat("OpenSSL cannot ", what, ": ", LastError()));
}

void SetValidity(HostTime from, HostTime until, X509* certificate) {
  ASN1_TIME_set(X509_getm_notBefore(certificate), SecondsOf(from));
  ASN1_TIME_set(X509_getm_notAfter(certificate), SecondsOf(until));
}

// `unit` is the kind of the holder. Either may be empty.
void AddName(const std::string& unit, const std::string& common, X509_NAME* name) {
  const auto add = [name](const char* field, const std::string& text) {
    if (!text.empty())
      X509_NAME_add_entry_by_txt(name, field, MBSTRING_UTF8,
                                 reinterpret_cast<const unsigned char*>(text.data()),
                                 static_cast<int>(text.size()), -1, 0);
  };
  add("O", "Lockstep");
  add("OU", unit);
  add("CN", common);
}

// `value` is in the language of OpenSSL's configuration (x509v3_config(5)). Its parts are never a peer's.
bool AddExtension(int id, const std::string& value, X509* issuer, X509* certificate) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const OwnExtension extension(X509V3_EXT_conf_nid(nullptr, &context, id, value.c_str()));
  return extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1;
}

absl::StatusOr<std::string> RandomSerial(X509* certificate) {
  const OwnNumber number(BN_new());
  if (number == nullptr || BN_rand(number.get(), kSerialBits, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) != 1 ||
      BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) == nullptr)
    return Failed("make a serial number");
  char* hex = BN_bn2hex(number.get());
  std::string text = hex == nullptr ? "" : hex;
  OPENSSL_free(hex);
  return text;
}

absl::StatusOr<OwnCertificate> AuthorityCertificate(EVP_PKEY* key, HostTime from, HostTime until,
                                                    const std::string& common, const EVP_MD* digest) {
  OwnCertificate certificate(X509_new());
  X509_set_version(certificate.get(), X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
  SetValidity(from, until, certificate.get());
  AddName("", common, X509_get_subject_name(certificate.get()));
  X509_set_issuer_name(certificate.get(), X509_get_subject_name(certificate.get()));
  X509_set_pubkey(certificate.get(), key);
  const bool ok =
      AddExtension(NID_basic_constraints, "critical,CA:TRUE,pathlen:0", certificate.get(),
                   certificate.get()) &&
      AddExtension(NID_key_usage, "critical,keyCertSign,cRLSign", certificate.get(), certificate.get()) &&
      AddExtension(NID_subject_key_identifier, "hash", certificate.get(), certificate.get());
  if (!ok || X509_sign(certificate.get(), key, digest) == 0) return Failed("sign an authority's certificate");
  return certificate;
}

// Returns "DNS:" or "IP:" and the host.
absl::StatusOr<std::string> HostName(const std::string& host) {
  std::array<unsigned char, 16> bytes{};
  if (inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 ||
      inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1)
    return absl::StrCat("IP:", host);
  for (const char c : host) {
    if (!absl::ascii_isalnum(c) && c != '.' && c != '-' && c != '_' && c != '*')
      return absl::InvalidArgumentError(
          absl::StrCat("'", host, "' is not the name or the address of a host"));
  }
  if (host.empty() || host.size() > 253)
    return absl::InvalidArgumentError("the name of a host has 1 to 253 characters");
  return absl::StrCat("DNS:", host);
}

// Returns whether the secret is 256 bits in hexadecimal digits, as Lockstep and `openssl rand -hex 32` make
// them. Nobody can guess such a secret, however fast a guess is.
bool IsRandom(std::string_view secret) {
  constexpr size_t kDigits = 64;
  return secret.size() == kDigits && std::all_of(secret.begin(), secret.end(), [](char c) {
           return absl::ascii_isxdigit(static_cast<unsigned char>(c));
         });
}

bool DeriveSeed(std::string_view secret, std::array<unsigned char, 32>& seed) {
  constexpr std::string_view kSalt = "lockstep authority of a secret 1";
  const auto* const salt = reinterpret_cast<const unsigned char*>(kSalt.data());
  if (IsRandom(secret)) {
    unsigned size = seed.size();
    return HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()), salt, kSalt.size(), seed.data(),
                &size) != nullptr;
  }
  return EVP_PBE_scrypt(secret.data(), secret.size(), salt, kSalt.size(), 1 << 14, 8, 1, 0, seed.data(),
                        seed.size()) == 1;
}

}  // namespace

struct Authority::Pair {
  OwnCertificate certificate;
  OwnKey key;
  const EVP_MD* digest;  // null for an Ed25519 key, which has its own
};

absl::StatusOr<KeyAndRequest> MakeRequest() {
  const OwnKey key(EVP_EC_gen("P-256"));
  const OwnRequest request(X509_REQ_new());
  if (key == nullptr || request == nullptr || X509_REQ_set_pubkey(request.get(), key.get()) != 1 ||
      X509_REQ_sign(request.get(), key.get(), EVP_sha256()) == 0)
    return Failed("make a key");
  const OwnBio out(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_X509_REQ(out.get(), request.get()) != 1) return Failed("write a request");
  return KeyAndRequest{PemOf(key.get()), TextOf(out.get())};
}

absl::StatusOr<Authority> Authority::Make(HostTime now) {
  OwnKey key(EVP_EC_gen("P-256"));
  if (key == nullptr) return Failed("make a key");
  // Lists of revoked certificates are found by the name of their authority.
  uint32_t number = 0;
  if (RAND_bytes(reinterpret_cast<unsigned char*>(&number), sizeof(number)) != 1)
    return Failed("make a name");
  auto certificate = AuthorityCertificate(
      key.get(), now - kBackdating, now + kAuthorityLifetime,
      absl::StrCat("Lockstep authority ", absl::Hex(number, absl::kZeroPad8)), EVP_sha256());
  if (!certificate.ok()) return certificate.status();
  return Authority(std::make_shared<Pair>(Pair{*std::move(certificate), std::move(key), EVP_sha256()}));
}

absl::StatusOr<Authority> Authority::Of(std::string_view certificate_pem, std::string_view key_pem) {
  OwnCertificate certificate = CertificateOfPem(certificate_pem);
  if (certificate == nullptr)
    return absl::InvalidArgumentError(absl::StrCat("its certificate is not in PEM form: ", LastError()));
  OwnKey key = KeyOfPem(key_pem);
  if (key == nullptr)
    return absl::InvalidArgumentError(
        absl::StrCat("its key is not in PEM form without a passphrase: ", LastError()));
  if (X509_check_private_key(certificate.get(), key.get()) != 1)
    return absl::InvalidArgumentError("its key is not that of its certificate");
  if (X509_check_ca(certificate.get()) != 1)
    return absl::InvalidArgumentError("its certificate is not an authority's");
  const bool own_digest = EVP_PKEY_is_a(key.get(), "ED25519") == 1;
  return Authority(std::make_shared<Pair>(
      Pair{std::move(certificate), std::move(key), own_digest ? nullptr : EVP_sha256()}));
}

absl::StatusOr<Authority> Authority::OfSecret(std::string_view secret) {
  std::array<unsigned char, 32> seed{};
  if (!DeriveSeed(secret, seed)) return Failed("derive a key");
  OwnKey key(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, seed.data(), seed.size()));
  OPENSSL_cleanse(seed.data(), seed.size());
  if (key == nullptr) return Failed("make a key");
  auto certificate =
      AuthorityCertificate(key.get(), kSecretFrom, kSecretUntil, "Lockstep authority of a token", nullptr);
  if (!certificate.ok()) return certificate.status();
  return Authority(std::make_shared<Pair>(Pair{*std::move(certificate), std::move(key), nullptr}));
}

std::string Authority::certificate() const { return PemOf(pair_->certificate.get()); }

std::string Authority::key() const { return PemOf(pair_->key.get()); }

absl::StatusOr<SignedCertificate> Authority::Sign(std::string_view request_pem, const Identity& identity,
                                                  const std::vector<std::string>& hosts, HostTime now,
                                                  Nanos lifetime) const {
  const bool named = identity.holder == Holder::kAggregator ? identity.name.empty() : IsName(identity.name);
  if (!named) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", identity.name, "' cannot be a name in a certificate: 1 to 64 letters, digits and '._-:@'"));
  }
  const OwnRequest request(PEM_read_bio_X509_REQ(ReaderOf(request_pem).get(), nullptr, nullptr, nullptr));
  EVP_PKEY* const key = request == nullptr ? nullptr : X509_REQ_get0_pubkey(request.get());
  if (key == nullptr)
    return absl::InvalidArgumentError(absl::StrCat("not a request for a certificate: ", LastError()));
  if (X509_REQ_verify(request.get(), key) != 1)
    return absl::InvalidArgumentError(absl::StrCat("the request's signature is wrong: ", LastError()));
  if (EVP_PKEY_get_security_bits(key) < 112)
    return absl::InvalidArgumentError(
        "the request's key is too weak: use P-256, Ed25519 or RSA of 2048 bits");

  std::vector<std::string> names = {absl::StrCat("URI:", UriOf(identity))};
  for (const std::string& host : hosts) {
    absl::StatusOr<std::string> name = HostName(host);
    if (!name.ok()) return name.status();
    names.push_back(*std::move(name));
  }
  const OwnCertificate certificate(X509_new());
  X509* const made = certificate.get();
  X509* const issuer = pair_->certificate.get();
  X509_set_version(made, X509_VERSION_3);
  absl::StatusOr<std::string> serial = RandomSerial(made);
  if (!serial.ok()) return serial.status();
  SetValidity(now - kBackdating, now + lifetime, made);
  AddName(KindName(identity.holder), identity.name, X509_get_subject_name(made));
  X509_set_issuer_name(made, X509_get_subject_name(issuer));
  X509_set_pubkey(made, key);
  // A node's daemon is also the server of its metrics.
  const char* purposes = identity.holder == Holder::kUser ? "clientAuth" : "clientAuth,serverAuth";
  const bool ok = AddExtension(NID_basic_constraints, "critical,CA:FALSE", issuer, made) &&
                  AddExtension(NID_key_usage, "critical,digitalSignature", issuer, made) &&
                  AddExtension(NID_ext_key_usage, purposes, issuer, made) &&
                  AddExtension(NID_subject_alt_name, absl::StrJoin(names, ","), issuer, made) &&
                  AddExtension(NID_subject_key_identifier, "hash", issuer, made) &&
                  AddExtension(NID_authority_key_identifier, "keyid:always", issuer, made);
  if (!ok || X509_sign(made, pair_->key.get(), pair_->digest) == 0) return Failed("sign a certificate");
  return SignedCertificate{PemOf(made), *std::move(serial), now + lifetime};
}

absl::StatusOr<std::string> Authority::Revoke(const std::vector<RevokedCertificate>& revoked,
                                              HostTime now) const {
  const OwnCrl crl(X509_CRL_new());
  const OwnTime at(ASN1_TIME_set(nullptr, SecondsOf(now - kBackdating)));
  X509_CRL_set_version(crl.get(), X509_CRL_VERSION_2);
  X509_CRL_set_issuer_name(crl.get(), X509_get_subject_name(pair_->certificate.get()));
  X509_CRL_set1_lastUpdate(crl.get(), at.get());
  X509_CRL_set1_nextUpdate(crl.get(), X509_get0_notAfter(pair_->certificate.get()));
  for (const RevokedCertificate& one : revoked) {
    BIGNUM* parsed = nullptr;
    if (BN_hex2bn(&parsed, one.serial.c_str()) != static_cast<int>(one.serial.size()) || one.serial.empty()) {
      BN_free(parsed);
      return absl::InvalidArgumentError(absl::StrCat("'", one.serial, "' is not a serial number"));
    }
    const OwnNumber number(parsed);
    const OwnInteger serial(BN_to_ASN1_INTEGER(number.get(), nullptr));
    const OwnTime since(ASN1_TIME_set(nullptr, SecondsOf(one.since)));
    OwnRevoked entry(X509_REVOKED_new());
    X509_REVOKED_set_serialNumber(entry.get(), serial.get());
    X509_REVOKED_set_revocationDate(entry.get(), since.get());
    if (X509_CRL_add0_revoked(crl.get(), entry.get()) != 1)
      return Failed("write the list of revoked certificates");
    (void)entry.release();
  }
  if (X509_CRL_sign(crl.get(), pair_->key.get(), pair_->digest) == 0)
    return Failed("sign the list of revoked certificates");
  const OwnBio out(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_X509_CRL(out.get(), crl.get()) != 1)
    return Failed("write the list of revoked certificates");
  return TextOf(out.get());
}

}  // namespace lockstep::tls
