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

absl::StatusOr<std::string> TextOfFile(const std::string& path) {
  const InputFile file = OpenInputFile(path);
  if (!file.fd.ok()) {
    return absl::Status(
        file.error == ENOENT ? absl::StatusCode::kNotFound : absl::StatusCode::kPermissionDenied,
        absl::StrCat(path, " ", file.why));
  }
  const std::optional<std::string> text = RestOf(file);
  if (!text) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
  return *text;
}

}  // namespace

bool TlsFolder::has_certificate() const {
  struct stat info = {};
  return stat(PathOf(kCertificateFile).c_str(), &info) == 0 || stat(PathOf(kKeyFile).c_str(), &info) == 0;
}

std::optional<Holder> TlsFolder::HolderOfCertificate() const {
  const absl::StatusOr<std::string> pem = TextOfFile(PathOf(kCertificateFile));
  if (!pem.ok()) return std::nullopt;
  const absl::StatusOr<CheckedCertificate> own = ReadCertificate(*pem);
  return own.ok() ? std::optional(own->identity.holder) : std::nullopt;
}

absl::StatusOr<KeyPair> TlsFolder::ReadKeyPair() const {
  absl::StatusOr<std::string> chain = TextOfFile(PathOf(kCertificateFile));
  if (!chain.ok()) return chain.status();
  absl::StatusOr<std::string> key =
      ReadSecretFile(PathOf(kKeyFile), "private key", kLargestKey, Links::kFollowed);
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
    if (stat(PathOf(file).c_str(), &info) != 0) info = {};
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
