// Page builds the text that Prometheus reads, in its text exposition format 0.0.4 (docs/formats/metrics.md).
//
// There is no registry. For each request, the program fills a new page from the counts of its parts. The text
// keeps the order of the calls, so the same numbers give the same bytes. A family without samples is listed
// too.
//
// One thread at a time may use a page. Names and help are constants of ours. Label values come from other
// processes, so they are escaped, and invalid UTF-8 is replaced.
#ifndef LOCKSTEP_BASE_METRICS_PAGE_H_
#define LOCKSTEP_BASE_METRICS_PAGE_H_

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

// Users choose the names of jobs, so a family has at most so many of them as labels, cut to this length.
inline constexpr size_t kMostJobLabels = 32;
inline constexpr size_t kLongestJobLabel = 128;

class Page {
 public:
  // Takes samples until the page begins its next family. Each call returns the family, so calls can be
  // chained. `page` must outlive it.
  class Family {
   public:
    const Family& Count(uint64_t value, Labels labels = {}) const;
    // `value` is a length of time or a time since 1970. It is written in seconds, without rounding.
    const Family& Seconds(Nanos value, Labels labels = {}) const;
    // `value` is a ratio or another fraction.
    const Family& Number(double value, Labels labels = {}) const;

   private:
    friend class Page;
    Family(Page& page, std::string_view name) : page_(page), name_(name) {}
    const Family& Write(std::string_view value, Labels labels) const;
    Page& page_;
    const std::string_view name_;
  };

  // `name` must live as long as samples are added to the family.
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

#endif  // LOCKSTEP_BASE_METRICS_PAGE_H_
