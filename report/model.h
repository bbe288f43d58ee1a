// The report as a value. report/fields/report.def declares its members, and docs/formats/report.md explains
// them.
//
// Analyze() (report.h) fills it; the JSON and text writers print it. It is a plain value that may be copied
// and read on any thread. nullopt is the document's null: unknown, never 0.
#ifndef LOCKSTEP_REPORT_MODEL_H_
#define LOCKSTEP_REPORT_MODEL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/time.h"

namespace lockstep::report {

// An interval of 95 %; [low, high] in the document.
struct Range {
  double low = 0;
  double high = 0;
};

// LossRow, CaptureRow, RankRow and so on up to Report.
#define OBJECT(Name, place, meaning) struct Name {
#define FIELD(type, member, name, unit, limits, meaning) type member{};
#define COMPUTED(type, function, name, unit, limits, meaning)
#define FIELDS_OF(Name, member) Name member{};
#define UNWRITTEN(type, member, meaning) type member{};
#define END(Name) \
  }               \
  ;
#include "report/fields/report.def"

}  // namespace lockstep::report

#endif  // LOCKSTEP_REPORT_MODEL_H_
