#include "base/tls/authority_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/files/read_files.h"
#include "base/files/secret_file.h"
#include "base/tls/openssl.h"
#include "base/tls/tls_folder.h"

namespace lockstep::tls {
namespace {

constexpr char kAuthorityKey[] = "ca.key";
constexpr char kIndex[] = "index.txt";
constexpr char kLock[] = "index.lock";
constexpr size_t kLargestAuthorityKey = 64 << 10;
constexpr unsigned kPublic = 0644;

// "261127083000Z", as ASN.1's UTCTime: years 1950 to 2049.
std::string UtcTime(HostTime time) {
  const auto seconds = SecondsOf(time);
  tm parts = {};
  char text[32] = "";
  if (gmtime_r(&seconds, &parts) != nullptr) (void)std::strftime(text, sizeof(text), "%y%m%d%H%M%SZ", &parts);
  return text;
}

std::optional<HostTime> ParseUtcTime(std::string_view text) {
  tm parts = {};
  const std::string copy(text);
  const char* end = strptime(copy.c_str(), "%y%m%d%H%M%SZ", &parts);
  if (end == nullptr || *end != '\0') return std::nullopt;
  return HostTime(static_cast<int64_t>(timegm(&parts)) * kNanosPerSecond);
}

std::string SubjectOf(const Identity& identity) {
  std::string subject = absl::StrCat("/O=Lockstep/OU=", KindName(identity.holder));
  if (!identity.name.empty()) absl::StrAppend(&subject, "/CN=", identity.name);
  return subject;
}

std::optional<Identity> IdentityOfSubject(std::string_view subject) {
  for (const Holder holder : {Holder::kAggregator, Holder::kNode, Holder::kUser}) {
    const std::string begin = SubjectOf({holder, ""});
    if (!subject.starts_with(begin)) continue;
    std::string_view rest = subject.substr(begin.size());
    if (holder == Holder::kAggregator)
      return rest.empty() ? std::optional(Identity{holder, ""}) : std::nullopt;
    constexpr std::string_view kCommon = "/CN=";
    if (rest.starts_with(kCommon) && IsName(rest.substr(kCommon.size())))
      return Identity{holder, std::string(rest.substr(kCommon.size()))};
  }
  return std::nullopt;
}

}  // namespace

std::string IndexLine(const IssuedCertificate& certificate) {
  return absl::StrCat(certificate.revoked ? "R" : "V", "\t", UtcTime(certificate.not_after), "\t",
                      certificate.revoked ? UtcTime(*certificate.revoked) : "", "\t", certificate.serial,
                      "\tunknown\t", certificate.identity ? SubjectOf(*certificate.identity) : "/");
}

std::optional<IssuedCertificate> ParseIndexLine(std::string_view line) {
  const std::vector<std::string> fields = absl::StrSplit(absl::string_view(line.data(), line.size()), '\t');
  if (fields.size() != 6 || fields[0].size() != 1 || fields[3].empty()) return std::nullopt;
  const auto not_after = ParseUtcTime(fields[1]);
  if (!not_after) return std::nullopt;
  IssuedCertificate certificate = {IdentityOfSubject(fields[5]), fields[3], *not_after, std::nullopt};
  // A reason may follow the time of a revocation, after a comma.
  if (fields[0] == "R") {
    certificate.revoked = ParseUtcTime(fields[2].substr(0, fields[2].find(',')));
    if (!certificate.revoked) return std::nullopt;
  }
  return certificate;
}

absl::StatusOr<AuthorityFolder> AuthorityFolder::Create(const std::string& path, HostTime now) {
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot create folder ", path));
  absl::StatusOr<Authority> authority = Authority::Make(now);
  if (!authority.ok()) return authority.status();
  AuthorityFolder folder(path, *std::move(authority));
  const absl::Status created =
      CreateSecretFile(folder.PathOf(kAuthorityKey), "private key", folder.authority_.key());
  if (absl::IsAlreadyExists(created))
    return absl::AlreadyExistsError(absl::StrCat(path, " already has an authority: name another folder"));
  if (!created.ok()) return created;
  const absl::StatusOr<std::string> revoked = folder.authority_.Revoke({}, now);
  if (!revoked.ok()) return revoked.status();
  for (const auto& [file, text] : {std::pair(kAuthoritiesFile, folder.authority_.certificate()),
                                   std::pair(kRevokedFile, *revoked), std::pair(kIndex, std::string())}) {
    if (absl::Status written = ReplaceFile(folder.PathOf(file), "file", text, kPublic); !written.ok())
      return written;
  }
  return folder;
}

absl::StatusOr<AuthorityFolder> AuthorityFolder::Open(const std::string& path) {
  const std::string certificate_path = absl::StrCat(path, "/", kAuthoritiesFile);
  const std::optional<std::string> certificate = FileText(certificate_path);
  if (!certificate) {
    return absl::ErrnoToStatus(errno,
                               absl::StrCat("cannot read ", certificate_path,
                                            ": name a folder that `lockstep node authority` has made"));
  }
  const absl::StatusOr<std::string> key = ReadSecretFile(
      absl::StrCat(path, "/", kAuthorityKey), "private key", kLargestAuthorityKey, Links::kFollowed);
  if (!key.ok()) return key.status();
  absl::StatusOr<Authority> authority = Authority::Of(*certificate, *key);
  if (!authority.ok())
    return absl::InvalidArgumentError(absl::StrCat("authority ", path, ": ", authority.status().message()));
  return AuthorityFolder(path, *std::move(authority));
}

absl::StatusOr<Fd> AuthorityFolder::Lock() const {
  Fd lock(open(PathOf(kLock).c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock.ok() || flock(lock.get(), LOCK_EX) != 0)
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot lock ", PathOf(kLock)));
  return lock;
}

absl::StatusOr<std::vector<IssuedCertificate>> AuthorityFolder::Issued() const {
  const std::optional<std::string> text = FileText(PathOf(kIndex));
  if (!text) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", PathOf(kIndex)));
  std::vector<IssuedCertificate> issued;
  size_t number = 0;
  for (const absl::string_view line : absl::StrSplit(*text, '\n')) {
    ++number;
    if (line.empty()) continue;
    auto certificate = ParseIndexLine({line.data(), line.size()});
    if (!certificate)
      return absl::DataLossError(absl::StrCat(PathOf(kIndex), ": line ", number, " is malformed"));
    issued.push_back(*std::move(certificate));
  }
  return issued;
}

absl::StatusOr<SignedCertificate> AuthorityFolder::Sign(std::string_view request, const Identity& identity,
                                                        const std::vector<std::string>& hosts, HostTime now,
                                                        Nanos lifetime) {
  const absl::StatusOr<Fd> lock = Lock();
  if (!lock.ok()) return lock.status();
  absl::StatusOr<SignedCertificate> made = authority_.Sign(request, identity, hosts, now, lifetime);
  if (!made.ok()) return made;
  const Fd index(open(PathOf(kIndex).c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW));
  const std::string line = IndexLine({identity, made->serial, made->not_after, std::nullopt}) + "\n";
  // A certificate that is not in the index could not be revoked.
  if (!index.ok() || write(index.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()) ||
      fsync(index.get()) != 0)
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", PathOf(kIndex)));
  return made;
}

absl::StatusOr<size_t> AuthorityFolder::Revoke(const Identity& identity, HostTime now) {
  const absl::StatusOr<Fd> lock = Lock();
  if (!lock.ok()) return lock.status();
  absl::StatusOr<std::vector<IssuedCertificate>> issued = Issued();
  if (!issued.ok()) return issued.status();
  size_t count = 0;
  std::string index;
  std::vector<RevokedCertificate> revoked;
  for (IssuedCertificate& certificate : *issued) {
    if (certificate.identity == identity && !certificate.revoked && certificate.not_after > now) {
      certificate.revoked = now;
      ++count;
    }
    if (certificate.revoked) revoked.push_back({certificate.serial, *certificate.revoked});
    absl::StrAppend(&index, IndexLine(certificate), "\n");
  }
  const absl::StatusOr<std::string> list = authority_.Revoke(revoked, now);
  if (!list.ok()) return list.status();
  // The list counts; if the index is not written, a second call revokes again.
  absl::Status written = ReplaceFile(PathOf(kRevokedFile), "file", *list, kPublic);
  if (written.ok()) written = ReplaceFile(PathOf(kIndex), "file", index, kPublic);
  if (!written.ok()) return written;
  return count;
}

}  // namespace lockstep::tls
