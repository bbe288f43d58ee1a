#include "base/tls/trust.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include <ctime>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/tls/openssl.h"

namespace lockstep::tls {
namespace {

// A peer chooses the chain's size.
constexpr int kMostOfChain = 8;

HostTime TimeOf(const ASN1_TIME* time) {
  tm parts = {};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return HostTime();
  return HostTime(static_cast<int64_t>(timegm(&parts)) * kNanosPerSecond);
}

std::string DayOf(const ASN1_TIME* time) {
  tm parts = {};
  char text[32] = "an unknown day";
  if (ASN1_TIME_to_tm(time, &parts) == 1)
    (void)std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M UTC", &parts);
  return text;
}

OwnNames NamesOf(const X509* certificate) {
  return OwnNames(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
}

std::string StringOf(const ASN1_STRING* text) {
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
          static_cast<size_t>(ASN1_STRING_length(text))};
}

// Returns the address in text form; empty: it is of no known family.
std::string AddressText(const std::string& bytes) {
  char text[INET6_ADDRSTRLEN] = {};
  const int family = bytes.size() == sizeof(in_addr) ? AF_INET : AF_INET6;
  if (family == AF_INET6 && bytes.size() != sizeof(in6_addr)) return "";
  return inet_ntop(family, bytes.data(), text, sizeof(text)) == nullptr ? "" : text;
}

std::vector<std::string> HostsOf(const X509* certificate) {
  const OwnNames names = NamesOf(certificate);
  std::vector<std::string> hosts;
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    std::string host;
    if (name->type == GEN_DNS) host = StringOf(name->d.dNSName);
    if (name->type == GEN_IPADD) host = AddressText(StringOf(name->d.iPAddress));
    if (!host.empty()) hosts.push_back(std::move(host));
  }
  return hosts;
}

absl::StatusOr<Identity> IdentityOf(const X509* certificate) {
  const OwnNames names = NamesOf(certificate);
  std::vector<Identity> found;
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    const auto identity = IdentityOfUri(StringOf(name->d.uniformResourceIdentifier));
    if (identity) found.push_back(*identity);
  }
  if (found.size() == 1) return found.front();
  return absl::InvalidArgumentError(
      found.empty() ? "the certificate has no name of Lockstep (a URI such as lockstep://node/ID)"
                    : "the certificate has more than one name of Lockstep");
}

CheckedCertificate FactsOf(const X509* certificate, Identity identity) {
  return {std::move(identity), TimeOf(X509_get0_notAfter(certificate)), HostsOf(certificate)};
}

// `whose` begins the sentence.
std::string ReasonOf(int error, const std::string& whose, const X509* certificate) {
  switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return absl::StrCat(whose, " expired on ", DayOf(X509_get0_notAfter(certificate)),
                          ": get a new one with `lockstep node enrol`");
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return absl::StrCat(whose, " is valid only from ", DayOf(X509_get0_notBefore(certificate)),
                          ": compare the clocks of the two machines");
    case X509_V_ERR_CERT_REVOKED:
      return absl::StrCat(whose, " has been revoked");
    case X509_V_ERR_CRL_HAS_EXPIRED:
      return absl::StrCat(whose, " cannot be checked, because the list of revoked certificates has expired");
    case X509_V_ERR_INVALID_PURPOSE:
    case X509_V_ERR_INVALID_CA:
      return absl::StrCat(whose, " was made for another purpose");
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
      return absl::StrCat(whose, " was made by another authority than that of ca.crt");
    default:
      return absl::StrCat(whose, " is not valid: ", X509_verify_cert_error_string(error));
  }
}

absl::StatusOr<OwnChain> ChainOf(std::string_view pem) {
  OwnChain chain = CertificatesOfPem(pem, kMostOfChain);
  const int length = sk_X509_num(chain.get());
  if (length == 0 || length > kMostOfChain)
    return absl::InvalidArgumentError(
        absl::StrCat("must be 1 to ", kMostOfChain, " certificates in PEM form"));
  return chain;
}

// A list of revoked certificates is not needed for every authority: while a site changes from one authority
// to another, only one may have a list.
int AllowNoList(int valid, X509_STORE_CTX* context) {
  return valid == 1 || X509_STORE_CTX_get_error(context) == X509_V_ERR_UNABLE_TO_GET_CRL ? 1 : 0;
}

}  // namespace

struct Trust::Store {
  OwnStore store;
};

absl::StatusOr<Trust> Trust::Of(std::string_view anchors, std::string_view revoked) {
  const auto chain = ChainOf(anchors);
  if (!chain.ok()) return absl::InvalidArgumentError(absl::StrCat("authorities: ", chain.status().message()));
  auto store = std::make_shared<Store>();
  store->store.reset(X509_STORE_new());
  for (int i = 0; i < sk_X509_num(chain->get()); ++i)
    X509_STORE_add_cert(store->store.get(), sk_X509_value(chain->get(), i));
  const OwnBio reader = ReaderOf(revoked);
  bool any = false;
  while (const OwnCrl crl{PEM_read_bio_X509_CRL(reader.get(), nullptr, nullptr, nullptr)}) {
    bool is_signed = false;
    for (int i = 0; i < sk_X509_num(chain->get()) && !is_signed; ++i)
      is_signed = X509_CRL_verify(crl.get(), X509_get0_pubkey(sk_X509_value(chain->get(), i))) == 1;
    if (!is_signed)
      return absl::InvalidArgumentError("the list of revoked certificates is signed by another authority");
    X509_STORE_add_crl(store->store.get(), crl.get());
    any = true;
  }
  ERR_clear_error();
  if (!any && !revoked.empty())
    return absl::InvalidArgumentError("the list of revoked certificates is not in PEM form");
  if (any) X509_STORE_set_flags(store->store.get(), X509_V_FLAG_CRL_CHECK);
  return Trust(std::move(store));
}

absl::StatusOr<CheckedCertificate> Trust::Check(std::string_view pem, Part part, HostTime now) const {
  const auto chain = ChainOf(pem);
  if (!chain.ok())
    return absl::UnauthenticatedError(absl::StrCat("the peer's certificate: ", chain.status().message()));
  X509* const leaf = sk_X509_value(chain->get(), 0);
  const absl::StatusOr<Identity> identity = IdentityOf(leaf);
  const OwnStoreContext context(X509_STORE_CTX_new());
  if (context == nullptr || X509_STORE_CTX_init(context.get(), store_->store.get(), leaf, chain->get()) != 1)
    return absl::InternalError(absl::StrCat("OpenSSL cannot check a certificate: ", LastError()));
  X509_VERIFY_PARAM* const rules = X509_STORE_CTX_get0_param(context.get());
  X509_VERIFY_PARAM_set_time(rules, SecondsOf(now));
  X509_VERIFY_PARAM_set_purpose(rules,
                                part == Part::kServer ? X509_PURPOSE_SSL_SERVER : X509_PURPOSE_SSL_CLIENT);
  // An intermediate authority in ca.crt is trusted like a root.
  X509_VERIFY_PARAM_set_flags(rules, X509_V_FLAG_PARTIAL_CHAIN);
  X509_STORE_CTX_set_verify_cb(context.get(), &AllowNoList);
  if (X509_verify_cert(context.get()) != 1) {
    const std::string whose =
        identity.ok() ? absl::StrCat("the certificate of ", TextOf(*identity)) : "the peer's certificate";
    ERR_clear_error();
    return absl::UnauthenticatedError(ReasonOf(X509_STORE_CTX_get_error(context.get()), whose, leaf));
  }
  if (!identity.ok()) return absl::UnauthenticatedError(identity.status().message());
  return FactsOf(leaf, *identity);
}

absl::StatusOr<CheckedCertificate> ReadCertificate(std::string_view pem) {
  const OwnCertificate certificate = CertificateOfPem(pem);
  if (certificate == nullptr)
    return absl::InvalidArgumentError(absl::StrCat("not a certificate in PEM form: ", LastError()));
  absl::StatusOr<Identity> identity = IdentityOf(certificate.get());
  if (!identity.ok()) return identity.status();
  return FactsOf(certificate.get(), *std::move(identity));
}

}  // namespace lockstep::tls
