#include "aggregator/notice/slowdown_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace lockstep::aggregator {
namespace {

std::string TimeText(int64_t ns) {
  const auto time = static_cast<double>(ns);
  return time < 1e9 ? absl::StrFormat("%.1f ms", time * 1e-6) : absl::StrFormat("%.2f s", time * 1e-9);
}

}  // namespace

std::string SlowdownText(const v1::Slowdown& s) {
  std::string text = absl::StrCat(
      "rank ", s.rank(), s.host_name().empty() ? "" : absl::StrCat(" (", s.host_name(), ")"), " takes ",
      TimeText(s.own_now_ns() - s.own_before_ns()), " longer per step since step ", s.since_step(), ": ",
      TimeText(s.own_now_ns()), " instead of ", TimeText(s.own_before_ns()), " without communication");
  if (s.step_now_ns() > s.step_before_ns()) {
    absl::StrAppend(&text, "; the job's steps take ", TimeText(s.step_now_ns()), " instead of ",
                    TimeText(s.step_before_ns()));
  }
  return text;
}

}  // namespace lockstep::aggregator
