// Time and certificates for tests of base/tls and of its users.
#ifndef LOCKSTEP_BASE_TLS_TLS_FIXTURE_H_
#define LOCKSTEP_BASE_TLS_TLS_FIXTURE_H_

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/time.h"
#include "base/tls/authority.h"
#include "base/tls/tls_folder.h"

namespace lockstep::tls {

inline constexpr HostTime kNow{1'800'000'000'000'000'000};  // 2027-01-15 08:00 UTC
inline constexpr Nanos kDay = Nanos::Seconds(86'400);

// A clock that a test sets.
class StepClock final : public Clock {
 public:
  MonoTime Monotonic() const override { return now; }
  HostTime Realtime() const override { return realtime; }
  MonoTime now;
  HostTime realtime = kNow;
};

// Writes the files of a TlsFolder. The certificate is valid for a day; without a holder there is only ca.crt.
// Returns its serial number.
inline std::string WriteTlsFolder(const std::string& path, const Authority& authority,
                                  const std::optional<Identity>& holder, HostTime from) {
  std::filesystem::create_directory(path);
  std::ofstream(path + "/" + kAuthoritiesFile) << authority.certificate();
  if (!holder) return "";
  const KeyAndRequest made = *MakeRequest();
  SignedCertificate certificate = *authority.Sign(made.request, *holder, {}, from, kDay);
  std::ofstream(path + "/" + kCertificateFile) << certificate.pem;
  std::ofstream(path + "/" + kKeyFile) << made.key;
  chmod((path + "/" + kKeyFile).c_str(), 0600);
  return certificate.serial;
}

}  // namespace lockstep::tls

#endif  // LOCKSTEP_BASE_TLS_TLS_FIXTURE_H_
