#include "base/tls/certificate_watch.h"

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/tls/trust.h"

namespace lockstep::tls {

std::optional<HostTime> CertificateWatch::End() const {
  if (path_.empty()) return std::nullopt;
  const absl::StatusOr<CheckedCertificate> own = folder_.ReadOwn();
  return own.ok() ? std::optional(own->not_after) : std::nullopt;
}

std::string CertificateWatch::Warning() const {
  const std::optional<HostTime> end = End();
  if (!end) return "";
  const Nanos left = *end - clock_->Realtime();
  if (left > kRenewBefore) return "";
  constexpr int64_t kHour = Nanos::Seconds(3600).ns();
  const std::string when = left < Nanos() ? absl::StrCat("has ended ", -left.ns() / kHour, " h ago")
                           : left.ns() < 48 * kHour
                               ? absl::StrCat("ends in ", left.ns() / kHour, " h")
                               : absl::StrCat("ends in ", left.ns() / (24 * kHour), " days");
  return absl::StrCat("the certificate in ", path_, " ", when,
                      ": renew it with `lockstep node rotate`, or as it was made");
}

void CertificateWatch::LogWarning() const {
  const std::string warning = Warning();
  if (!warning.empty()) log_(LogLevel::kWarning, "certificate_ends", {{"reason", warning}});
}

}  // namespace lockstep::tls
