// CertificateWatch reports the end of validity of a program's own certificate, before connections fail. It
// does so as a metric, in the log, and as a sentence for `lockstep status`.
#ifndef LOCKSTEP_BASE_TLS_CERTIFICATE_WATCH_H_
#define LOCKSTEP_BASE_TLS_CERTIFICATE_WATCH_H_

#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/log/log.h"
#include "base/time.h"
#include "base/tls/tls_folder.h"

namespace lockstep::tls {

// Any thread. Each call reads the certificate's file, which may have been replaced.
class CertificateWatch {
 public:
  // From this time before the certificate's end, there is a warning.
  static constexpr Nanos kRenewBefore = Nanos::Seconds(14 * 24 * 3600);
  static constexpr Nanos kLogEvery = Nanos::Seconds(24 * 3600);

  // `folder` is that of --tls-dir; empty: the program has no certificate, and there is nothing to report.
  CertificateWatch(const std::string& folder, OpenFile open, std::shared_ptr<const Clock> clock, LogSink log)
      : path_(folder),
        clock_(std::move(clock)),
        folder_(folder, clock_, &LogNothing, std::move(open)),
        log_(std::move(log)) {}

  // Returns the end of its validity; nothing if the program has none or it cannot be read.
  std::optional<HostTime> End() const;
  // Returns a warning with the remedy; empty if the certificate is valid for longer.
  std::string Warning() const;
  // Writes the warning to the log ("certificate_ends"). Call it at the start and once per kLogEvery.
  void LogWarning() const;

 private:
  const std::string path_;
  const std::shared_ptr<const Clock> clock_;
  const TlsFolder folder_;
  const LogSink log_;
};

}  // namespace lockstep::tls

#endif  // LOCKSTEP_BASE_TLS_CERTIFICATE_WATCH_H_
