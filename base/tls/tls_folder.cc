#include "base/tls/tls_folder.h"

#include <sys/stat.h>

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/files/read_files.h"
#include "base/files/secret_file.h"
#include "base/tls/openssl.h"

namespace lockstep::tls {
namespace {

constexpr size_t kLargestKey = 64 << 10;
constexpr Nanos kLookAgain = Nanos::Seconds(1);

absl::Status InFile(const std::string& path, const absl::Status& why) {
  return absl::Status(why.code(), absl::StrCat(path, ": ", why.message()));
}

}  // namespace

absl::StatusOr<std::string> TlsFolder::TextOfFile(const std::string& path) const {
  const InputFile file = open_(path);
  if (!file.fd.ok()) {
    return absl::Status(
        file.error == ENOENT ? absl::StatusCode::kNotFound : absl::StatusCode::kPermissionDenied,
        absl::StrCat(path, " ", file.why));
  }
  const std::optional<std::string> text = RestOf(file);
  if (!text) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
  return *text;
}

bool TlsFolder::has_certificate() const {
  return open_(PathOf(kCertificateFile)).error != ENOENT || open_(PathOf(kKeyFile)).error != ENOENT;
}

std::optional<Holder> TlsFolder::HolderOfCertificate() const {
  const absl::StatusOr<CheckedCertificate> own = ReadOwn();
  return own.ok() ? std::optional(own->identity.holder) : std::nullopt;
}

absl::StatusOr<CheckedCertificate> TlsFolder::ReadOwn() const {
  const absl::StatusOr<std::string> pem = TextOfFile(PathOf(kCertificateFile));
  if (!pem.ok()) return pem.status();
  absl::StatusOr<CheckedCertificate> own = ReadCertificate(*pem);
  return own.ok() ? own : InFile(PathOf(kCertificateFile), own.status());
}

absl::StatusOr<KeyPair> TlsFolder::ReadKeyPair() const {
  absl::StatusOr<std::string> chain = TextOfFile(PathOf(kCertificateFile));
  if (!chain.ok()) return chain.status();
  const InputFile file = open_(PathOf(kKeyFile));
  if (!file.fd.ok())
    return absl::Status(absl::ErrnoToStatusCode(file.error),
                        absl::StrCat("private key ", PathOf(kKeyFile), " ", file.why));
  absl::StatusOr<std::string> key = ReadOpenSecretFile(file.fd, PathOf(kKeyFile), "private key", kLargestKey);
  if (!key.ok()) return key.status();
  return KeyPair{*std::move(chain), *std::move(key)};
}

absl::StatusOr<CheckedCertificate> TlsFolder::Check(Holder holder) const {
  const absl::StatusOr<KeyPair> pair = ReadKeyPair();
  if (!pair.ok()) return pair.status();
  absl::StatusOr<CheckedCertificate> own = ReadCertificate(pair->chain);
  if (!own.ok()) return InFile(PathOf(kCertificateFile), own.status());
  if (own->identity.holder != holder) {
    return absl::FailedPreconditionError(
        absl::StrCat(PathOf(kCertificateFile), " is the certificate of ", TextOf(own->identity),
                     ": this program needs one with the name ",
                     UriOf({holder, holder == Holder::kAggregator ? "" : "…"})));
  }
  const OwnCertificate certificate = CertificateOfPem(pair->chain);
  const OwnKey parsed = KeyOfPem(pair->key);
  if (parsed == nullptr)
    return absl::InvalidArgumentError(
        absl::StrCat(PathOf(kKeyFile), " is not a private key in PEM form without a passphrase"));
  if (X509_check_private_key(certificate.get(), parsed.get()) != 1)
    return absl::FailedPreconditionError(
        absl::StrCat(PathOf(kKeyFile), " is not the key of ", PathOf(kCertificateFile)));
  return own;
}

absl::StatusOr<Trust> TlsFolder::Read() const {
  const absl::StatusOr<std::string> anchors = TextOfFile(PathOf(kAuthoritiesFile));
  if (!anchors.ok()) return anchors.status();
  const absl::StatusOr<std::string> revoked = TextOfFile(PathOf(kRevokedFile));
  if (!revoked.ok() && !absl::IsNotFound(revoked.status())) return revoked.status();
  absl::StatusOr<Trust> trust = Trust::Of(*anchors, revoked.value_or(""));
  return trust.ok() ? trust : InFile(path_, trust.status());
}

std::string TlsFolder::Version() const {
  std::string version;
  for (const char* file : {kAuthoritiesFile, kRevokedFile}) {
    struct stat info = {};
    const InputFile opened = open_(PathOf(file));
    if (!opened.fd.ok() || fstat(opened.fd.get(), &info) != 0) info = {};
    absl::StrAppend(&version, info.st_ino, " ", info.st_size, " ", info.st_mtim.tv_sec, ".",
                    info.st_mtim.tv_nsec, " ");
  }
  return version;
}

absl::StatusOr<Trust> TlsFolder::CurrentTrust() {
  MutexLock lock(&mutex_);
  const MonoTime now = clock_->Monotonic();
  if (!version_.empty() && now - looked_ < kLookAgain) return trust_;
  looked_ = now;
  if (std::string version = Version(); version != version_) {
    version_ = std::move(version);
    absl::StatusOr<Trust> trust = Read();
    if (!trust.ok() && trust_.ok())
      log_(LogLevel::kError, "tls_folder_refused", {{"folder", path_}, {"reason", trust.status().message()}});
    if (trust.ok() || !trust_.ok()) trust_ = std::move(trust);
  }
  return trust_;
}

}  // namespace lockstep::tls
