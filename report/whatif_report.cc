#include "report/whatif_report.h"

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "analysis/explain/causes.h"
#include "base/json/json_out.h"
#include "report/text_layout.h"

namespace lockstep::report {
namespace {

using analysis::LengthText;
using analysis::WhatIfPart;
using analysis::WhatIfRequest;
using analysis::WhatIfResult;

// Both documents use the same texts.
constexpr const char* kNotModelled[] = {
    "transfers and copies beside the changed work: they keep the duration they had",
    "the depth of a launch queue that was never seen full",
};

std::string HowText(const WhatIfRequest& request) {
  if (request.scale) return absl::StrFormat("taking %.4gx as long", *request.scale);
  if (request.strength < 1) return absl::StrFormat("made typical, %.4g%% of the way", 100 * request.strength);
  return "made typical";
}

}  // namespace

std::string RenderWhatIf(const WhatIfRequest& request, const WhatIfResult& r, const TextOptions& options) {
  TextLayout out(options.width, options.color);
  const double part = r.step_ns > 0 ? r.gain_ns / r.step_ns : 0;
  std::string line =
      absl::StrFormat("STEP %s instead of %s: ", LengthText(r.new_step_ns), LengthText(r.step_ns));
  line += r.gain_ns >= 0
              ? absl::StrFormat("gain %s per step (%s)", LengthText(r.gain_ns), Percent(part))
              : absl::StrFormat("loss of %s per step (%s)", LengthText(-r.gain_ns), Percent(-part));
  if (r.gain_interval)
    line += absl::StrFormat(" [%s, %s]", LengthText(r.gain_interval->low), LengthText(r.gain_interval->high));
  line += absl::StrFormat(", over %d step%s", r.steps, r.steps == 1 ? "" : "s");
  out.Line(line, 2, r.gain_ns > 0 ? Tone::kGood : Tone::kWarn);
  const std::string how = HowText(request);
  for (const WhatIfPart& p : r.parts)
    out.Line(absl::StrFormat("IF %s: %d units %s", p.what, p.units, how), 2, Tone::kTitle);
  out.Line(absl::StrFormat("CHANGED %d of %d units; all others keep what they were observed to take",
                           r.units_changed, r.units),
           2, Tone::kTitle);
  for (const std::string& note : r.notes) out.Line("NOTE " + note, 2, Tone::kWarn);
  out.Line(absl::StrFormat("NOT MODELLED %s", absl::StrJoin(kNotModelled, "; ")), 2, Tone::kTitle);
  return out.Take();
}

std::string WhatIfJson(const WhatIfRequest& request, const WhatIfResult& r) {
  JsonOut out;
  out.BeginObject();
  out.Member("schema", "lockstep.whatif/1");
  out.Key("fix").BeginArray();
  for (const WhatIfPart& p : r.parts) {
    out.BeginObject();
    out.Member("kind", analysis::FixKindName(p.target.kind));
    out.Member("value", p.target.value);
    out.Member("what", p.what);
    out.Member("ranks", p.ranks);
    out.Member("units", p.units);
    out.EndObject();
  }
  out.EndArray();
  out.Member("scale", request.scale);
  out.Member("strength", request.scale ? std::optional<double>() : request.strength);
  out.Member("steps", static_cast<uint64_t>(r.steps));
  out.Member("step_ns", r.step_ns);
  out.Member("new_step_ns", r.new_step_ns);
  out.Member("gain_ns_per_step", r.gain_ns);
  out.Key("gain_interval");
  if (r.gain_interval) {
    out.BeginArray();
    out.Value(r.gain_interval->low);
    out.Value(r.gain_interval->high);
    out.EndArray();
  } else {
    out.Null();
  }
  out.Member("gain_ns_by_step", r.gain_per_step);
  out.Member("units", r.units);
  out.Member("units_changed", r.units_changed);
  out.Member("notes", r.notes);
  out.Key("not_modelled").BeginArray();
  for (const char* limit : kNotModelled) out.Value(limit);
  out.EndArray();
  out.EndObject();
  return out.Take();
}

}  // namespace lockstep::report
