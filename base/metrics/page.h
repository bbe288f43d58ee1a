// The page that Prometheus reads, in its text exposition format 0.0.4 (docs/formats/metrics.md).
//
// There is no registry: who is asked for a page fills a new one from what its parts have counted. Families
// and samples stand in the text in the order in which they were added, so the same numbers give the same
// bytes. A family without samples is listed all the same.
//
// One thread. Names and help are ours; label values may be anybody's: they are escaped, and what is no UTF-8
// is replaced.
#ifndef LOCKSTEP_COMMON_METRICS_PAGE_H_
#define LOCKSTEP_COMMON_METRICS_PAGE_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "base/metrics/histogram.h"
#include "base/time.h"

namespace lockstep::metrics {

inline constexpr char kPageContentType[] = "text/plain; version=0.0.4; charset=utf-8";

struct Label {
  std::string_view name;
  std::string_view value;
};
using Labels = std::initializer_list<Label>;

class Page {
 public:
  // Takes samples until the page begins its next family. Chains; `page` outlives it.
  class Family {
   public:
    const Family& Count(uint64_t value, Labels labels = {}) const;
    // A length of time, or a moment since 1970; written in seconds, exactly.
    const Family& Seconds(Nanos value, Labels labels = {}) const;
    // A ratio, or another number that is not whole.
    const Family& Number(double value, Labels labels = {}) const;

   private:
    friend class Page;
    Family(Page& page, std::string_view name) : page_(page), name_(name) {}
    const Family& Write(std::string_view value, Labels labels) const;
    Page& page_;
    const std::string_view name_;
  };

  // `name` lives as long as the family is added to.
  Family Counter(std::string_view name, std::string_view help) { return Begin(name, "counter", help); }
  Family Gauge(std::string_view name, std::string_view help) { return Begin(name, "gauge", help); }
  void Histogram(std::string_view name, std::string_view help, const DurationHistogram& histogram);

  const std::string& text() const { return text_; }

 private:
  Family Begin(std::string_view name, const char* type, std::string_view help);

  std::string text_;
  std::string open_;  // the family that takes samples
};

}  // namespace lockstep::metrics

#endif  // LOCKSTEP_COMMON_METRICS_PAGE_H_
