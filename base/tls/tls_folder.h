// TlsFolder is a folder with a program's certificates. Its files have the names of a Kubernetes secret for
// TLS:
//   ca.crt    certificates of the authorities that this program trusts
//   tls.crt   the program's own certificate, and intermediate ones
//   tls.key   its private key, readable for the program's user only
//   ca.crl    optional: the authorities' lists of revoked certificates
// A client that proves its user in another way (a token, MUNGE) needs only ca.crt.
//
// The files may be replaced while the program runs, as certificates are renewed.
#ifndef LOCKSTEP_BASE_TLS_TLS_FOLDER_H_
#define LOCKSTEP_BASE_TLS_TLS_FOLDER_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/files/read_files.h"
#include "base/log/log.h"
#include "base/mutex.h"
#include "base/tls/tls_server.h"
#include "base/tls/trust.h"

namespace lockstep::tls {

inline constexpr char kAuthoritiesFile[] = "ca.crt";
inline constexpr char kCertificateFile[] = "tls.crt";
inline constexpr char kKeyFile[] = "tls.key";
inline constexpr char kRevokedFile[] = "ca.crl";

// Opens a file for reading (OpenInputFile). A program without the right to open its files lets another one do
// it.
using OpenFile = std::function<InputFile(const std::string& path)>;
inline InputFile OpenDirectly(const std::string& path) { return OpenInputFile(path); }

// Any thread.
class TlsFolder {
 public:
  TlsFolder(std::string path, std::shared_ptr<const Clock> clock, LogSink log, OpenFile open = &OpenDirectly)
      : path_(std::move(path)), clock_(std::move(clock)), log_(std::move(log)), open_(std::move(open)) {}

  std::string PathOf(const char* file) const { return path_ + "/" + file; }
  // Returns whether the folder has a certificate of its own or a key.
  bool has_certificate() const;
  // Returns the kind of the certificate's holder; nothing if there is none or it cannot be read.
  std::optional<Holder> HolderOfCertificate() const;
  // Reads the own certificate, without a check of its key.
  absl::StatusOr<CheckedCertificate> ReadOwn() const;
  // Checks the own certificate and its key, whose certificate must be for `holder`. The message has the path
  // and the remedy.
  absl::StatusOr<CheckedCertificate> Check(Holder holder) const;

  // Reads the own certificate and its key. Errors as above, apart from the holder's.
  absl::StatusOr<KeyPair> ReadKeyPair() const;

  // Reads ca.crt.
  absl::StatusOr<std::string> ReadAuthorities() const { return TextOfFile(PathOf(kAuthoritiesFile)); }

  // Returns the trust in the authorities of ca.crt, without the certificates of ca.crl. The files are read
  // again if they have changed, at most once per second. If the new ones cannot be used, the earlier ones
  // stay in use, and the log says why ("tls_folder_refused").
  absl::StatusOr<Trust> CurrentTrust();

 private:
  absl::StatusOr<std::string> TextOfFile(const std::string& path) const;
  absl::StatusOr<Trust> Read() const;
  // Changes when one of the files changes.
  std::string Version() const;

  const std::string path_;
  const std::shared_ptr<const Clock> clock_;
  const LogSink log_;
  const OpenFile open_;
  Mutex mutex_;
  absl::StatusOr<Trust> trust_ ABSL_GUARDED_BY(mutex_) = absl::UnknownError("not read yet");
  std::string version_ ABSL_GUARDED_BY(mutex_);
  MonoTime looked_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::tls

#endif  // LOCKSTEP_BASE_TLS_TLS_FOLDER_H_
