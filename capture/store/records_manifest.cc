#include "capture/store/records_manifest.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/json/json_string.h"
#include "simdjson.h"
#include "wire/columns/schema.h"

namespace lockstep::capture {
namespace {

using simdjson::dom::element;
using simdjson::dom::object;

// ---- writing ----

std::string QuotedList(const std::vector<std::string>& texts) {
  return absl::StrCat(
      "[", absl::StrJoin(texts, ", ", [](std::string* out, const std::string& t) { *out += JsonQuoted(t); }),
      "]");
}

std::string HostJson(const Host& host) {
  std::string out = absl::StrCat("{\"id\": ", JsonQuoted(host.id), ", \"name\": ", JsonQuoted(host.name),
                                 ", \"exchanges\": [");
  for (size_t i = 0; i < host.exchanges.size(); ++i) {
    const ClockExchange& e = host.exchanges[i];
    absl::StrAppend(&out, i ? ", " : "", "[", e.t1.ns(), ", ", e.t2.ns(), ", ", e.t3.ns(), ", ", e.t4.ns(),
                    ", ", e.monotonic.ns(), "]");
  }
  return out + "]}";
}

std::string FileJson(const ManifestFile& file) {
  std::string rows;
  for (size_t kind = 0; kind < file.rows.size(); ++kind) {
    if (file.rows[kind] == 0) continue;
    absl::StrAppend(&rows, rows.empty() ? "" : ", ",
                    JsonQuoted(columns::KindName(static_cast<columns::Kind>(kind))), ": ", file.rows[kind]);
  }
  return absl::StrCat("{\"name\": ", JsonQuoted(file.name), ", \"bytes\": ", file.bytes, ", \"rows\": {",
                      rows, "}}");
}

std::string LossJson(const Loss& loss) {
  return absl::StrCat("{\"stage\": ", JsonQuoted(loss.stage), ", \"kind\": ", JsonQuoted(loss.kind),
                      ", \"records\": ", loss.records, ", \"reason\": ", JsonQuoted(loss.reason),
                      ", \"from_ns\": ", loss.from.ns(), ", \"to_ns\": ", loss.to.ns(), "}");
}

std::string ProcessJson(const ManifestProcess& p) {
  std::string out = absl::StrCat("{\"rank\": ", p.rank.value(),
                                 ", \"host\": ", p.host == kNone ? -1 : static_cast<int64_t>(p.host),
                                 ", \"pid\": ", p.pid, ", \"start_ticks\": ", p.start_ticks,
                                 ", \"uid\": ", p.uid, ", \"incarnation\": ", p.incarnation, ",\n     ");
  absl::StrAppend(&out, "\"program\": ", JsonQuoted(p.program),
                  ", \"rank_source\": ", JsonQuoted(p.rank_source), ", \"t0_host_ns\": ", p.window.start.ns(),
                  ", \"t1_host_ns\": ", p.window.end.ns(), ", \"state\": ", JsonQuoted(p.state));
  absl::StrAppend(&out, ", \"text\": ", JsonQuoted(p.text), ", \"cut\": ", JsonQuoted(p.cut),
                  ", \"late_ns\": ", p.late.ns(), ", \"via\": ", JsonQuoted(p.via));
  if (!p.trace.name.empty()) {
    absl::StrAppend(&out, ", \"trace\": {\"name\": ", JsonQuoted(p.trace.name),
                    ", \"bytes\": ", p.trace.bytes, "}");
  }
  if (const ManifestPythonProfile& profile = p.python_profile; !profile.name.empty()) {
    absl::StrAppend(&out, ", \"python_profile\": {\"name\": ", JsonQuoted(profile.name),
                    ", \"bytes\": ", profile.bytes, ", \"begin_host_ns\": ", profile.window.start.ns(),
                    ", \"end_host_ns\": ", profile.window.end.ns(), "}");
  }
  absl::StrAppend(&out, ",\n     \"files\": [");
  absl::StrAppend(
      &out, absl::StrJoin(p.files, ", ", [](std::string* o, const ManifestFile& f) { *o += FileJson(f); }),
      "],\n     \"losses\": [");
  absl::StrAppend(
      &out, absl::StrJoin(p.losses, ", ", [](std::string* o, const Loss& l) { *o += LossJson(l); }), "]}");
  return out;
}

// ---- reading: every accessor has a default, so a missing or mistyped field never fails a whole capture ----

int64_t Int(const object& o, std::string_view key, int64_t otherwise = 0) {
  int64_t value = 0;
  if (o[key].get(value) == simdjson::SUCCESS) return value;
  uint64_t big = 0;
  return o[key].get(big) == simdjson::SUCCESS ? static_cast<int64_t>(big) : otherwise;
}

// Returns 0 for a value that is not a time.
int64_t Time(const object& o, std::string_view key) {
  const int64_t time = Int(o, key);
  return IsTime(time) ? time : 0;
}

std::string Str(const object& o, std::string_view key) {
  std::string_view value;
  return o[key].get(value) == simdjson::SUCCESS ? std::string(value) : std::string();
}

bool Bool(const object& o, std::string_view key) {
  bool value = false;
  return o[key].get(value) == simdjson::SUCCESS && value;
}

template <typename Fn>
void EachObject(const object& o, const char* key, Fn fn) {
  simdjson::dom::array array;
  if (o[key].get(array) != simdjson::SUCCESS) return;
  for (const element& e : array) {
    object item;
    if (e.get(item) == simdjson::SUCCESS) fn(item);
  }
}

std::vector<int64_t> Ints(const element& e) {
  std::vector<int64_t> out;
  simdjson::dom::array array;
  if (e.get(array) != simdjson::SUCCESS) return out;
  for (const element& item : array) {
    int64_t value = 0;
    if (item.get(value) == simdjson::SUCCESS) out.push_back(value);
  }
  return out;
}

std::vector<int64_t> Ints(const object& o, std::string_view key) {
  element e;
  return o[key].get(e) == simdjson::SUCCESS ? Ints(e) : std::vector<int64_t>();
}

ManifestFile FileFrom(const object& o) {
  ManifestFile file;
  file.name = Str(o, "name");
  file.bytes = static_cast<uint64_t>(Int(o, "bytes"));
  object rows;
  if (o["rows"].get(rows) != simdjson::SUCCESS) return file;
  for (size_t kind = 0; kind < file.rows.size(); ++kind) {
    file.rows[kind] += static_cast<uint64_t>(Int(rows, columns::KindName(static_cast<columns::Kind>(kind))));
  }
  return file;
}

Loss LossFrom(const object& o) {
  return {Str(o, "stage"),
          Str(o, "kind"),
          std::min(static_cast<uint64_t>(Int(o, "records")), kMostLostRecords),
          Str(o, "reason"),
          HostTime(Int(o, "from_ns")),
          HostTime(Int(o, "to_ns"))};
}

Host HostFrom(const object& o) {
  Host host;
  host.id = Str(o, "id");
  host.name = Str(o, "name");
  simdjson::dom::array exchanges;
  if (o["exchanges"].get(exchanges) != simdjson::SUCCESS) return host;
  for (const element& e : exchanges) {
    const std::vector<int64_t> t = Ints(e);
    if (t.size() < 5) continue;
    const ClockExchange exchange{HostTime(t[0]), JobTime(t[1]), JobTime(t[2]), HostTime(t[3]),
                                 MonoTime(t[4])};
    if (exchange.valid()) host.exchanges.push_back(exchange);
  }
  return host;
}

ManifestProcess ProcessFrom(const object& o, size_t hosts) {
  ManifestProcess p;
  p.rank = RankId(static_cast<int32_t>(Int(o, "rank", -1)));
  const int64_t host = Int(o, "host", -1);
  p.host = host >= 0 && static_cast<uint64_t>(host) < hosts ? static_cast<uint32_t>(host) : kNone;
  p.pid = static_cast<int32_t>(Int(o, "pid"));
  p.start_ticks = static_cast<uint64_t>(Int(o, "start_ticks"));
  p.uid = static_cast<uint32_t>(Int(o, "uid"));
  p.incarnation = static_cast<uint32_t>(Int(o, "incarnation", 1));
  p.program = Str(o, "program");
  p.rank_source = Str(o, "rank_source");
  p.window = {HostTime(Time(o, "t0_host_ns")), HostTime(Time(o, "t1_host_ns"))};
  p.state = Str(o, "state");
  p.text = Str(o, "text");
  p.cut = Str(o, "cut");
  p.late = Nanos(Time(o, "late_ns"));
  if (std::string via = Str(o, "via"); !via.empty()) p.via = std::move(via);
  object trace;
  if (o["trace"].get(trace) == simdjson::SUCCESS) {
    p.trace = {Str(trace, "name"), static_cast<uint64_t>(Int(trace, "bytes"))};
  }
  object profile;
  if (o["python_profile"].get(profile) == simdjson::SUCCESS) {
    p.python_profile = {Str(profile, "name"),
                        static_cast<uint64_t>(Int(profile, "bytes")),
                        {HostTime(Int(profile, "begin_host_ns")), HostTime(Int(profile, "end_host_ns"))}};
  }
  EachObject(o, "files", [&](const object& f) { p.files.push_back(FileFrom(f)); });
  EachObject(o, "losses", [&](const object& l) { p.losses.push_back(LossFrom(l)); });
  return p;
}

std::string RankInName(RankId rank) {
  return rank >= RankId(0) ? absl::StrFormat("%05d", rank.value()) : "x";
}

// Reads "r00003" and "p00003", or "rx".
bool ParseOwner(const std::vector<std::string>& parts, RankId* rank, uint32_t* process) {
  if (parts[0].empty() || parts[1].empty() || parts[0][0] != 'r' || parts[1][0] != 'p') return false;
  int32_t number = -1;
  if (parts[0] != "rx" && (!absl::SimpleAtoi(parts[0].substr(1), &number) || number < 0)) return false;
  *rank = RankId(number);
  return absl::SimpleAtoi(parts[1].substr(1), process);
}

}  // namespace

std::string ManifestToJson(const Manifest& m) {
  std::string out =
      absl::StrCat("{\"schema\": ", JsonQuoted(kRecordsSchema), ",\n \"id\": ", JsonQuoted(m.id),
                   ", \"job\": ", JsonQuoted(m.job), ", \"uid\": ", m.uid, ", \"world_size\": ", m.world_size,
                   ", \"activities\": ", m.activities, ",\n \"t0_ns\": ", m.t0.ns(),
                   ", \"t1_ns\": ", m.t1.ns(), ", \"requested_ns\": ", m.requested.ns());
  absl::StrAppend(
      &out, ", \"complete\": ", m.complete ? "true" : "false", ",\n \"missing_ranks\": [",
      absl::StrJoin(m.missing_ranks, ", ", [](std::string* o, RankId r) { absl::StrAppend(o, r.value()); }),
      "],\n ",
      m.wanted_steps ? absl::StrCat("\"first_step\": ", m.wanted_steps->first,
                                    ", \"steps\": ", m.wanted_steps->count, ", ")
                     : "",
      "\"notes\": ", QuotedList(m.notes), ",\n \"hosts\": [\n    ");
  absl::StrAppend(&out,
                  absl::StrJoin(m.hosts, ",\n    ", [](std::string* o, const Host& h) { *o += HostJson(h); }),
                  "],\n \"processes\": [\n    ");
  absl::StrAppend(&out,
                  absl::StrJoin(m.processes, ",\n    ",
                                [](std::string* o, const ManifestProcess& p) { *o += ProcessJson(p); }),
                  "]\n}\n");
  return out;
}

absl::StatusOr<Manifest> ParseManifest(std::string_view json) {
  simdjson::dom::parser parser;
  object root;
  const auto error = parser.parse(json.data(), json.size()).get(root);
  if (error != simdjson::SUCCESS) {
    return absl::InvalidArgumentError(absl::StrCat("not a JSON object: ", simdjson::error_message(error)));
  }
  const std::string schema = Str(root, "schema");
  if (schema != kRecordsSchema) {
    return absl::InvalidArgumentError(
        absl::StrCat("its schema is \"", schema, "\" and this program reads \"", kRecordsSchema, "\""));
  }
  Manifest m;
  m.id = Str(root, "id");
  m.job = Str(root, "job");
  m.uid = static_cast<uint32_t>(Int(root, "uid"));
  m.world_size = static_cast<int32_t>(Int(root, "world_size"));
  m.activities = static_cast<uint32_t>(Int(root, "activities"));
  m.t0 = JobTime(Int(root, "t0_ns"));
  m.t1 = JobTime(Int(root, "t1_ns"));
  m.requested = Nanos(std::max<int64_t>(Time(root, "requested_ns"), 0));
  m.complete = Bool(root, "complete");
  for (const int64_t rank : Ints(root, "missing_ranks"))
    m.missing_ranks.push_back(RankId(static_cast<int32_t>(rank)));
  if (const int64_t steps = Int(root, "steps"), first = Int(root, "first_step"); steps > 0 && first >= 0) {
    m.wanted_steps = StepSpan{static_cast<uint64_t>(first), static_cast<uint64_t>(steps)};
  }
  simdjson::dom::array notes;
  if (root["notes"].get(notes) == simdjson::SUCCESS) {
    for (const element& note : notes) {
      std::string_view text;
      if (note.get(text) == simdjson::SUCCESS) m.notes.emplace_back(text);
    }
  }
  EachObject(root, "hosts", [&](const object& h) { m.hosts.push_back(HostFrom(h)); });
  EachObject(root, "processes",
             [&](const object& p) { m.processes.push_back(ProcessFrom(p, m.hosts.size())); });
  return m;
}

std::string RecordsFileName(const RecordsFile& file) {
  return absl::StrFormat("r%s.p%05u.%u.lsr", RankInName(file.rank), file.process, file.number);
}

std::string TraceFileName(const TraceFileOwner& owner) {
  const char* suffix = owner.kind == TraceFileKind::kKineto ? "kineto.json.gz" : "cprofile";
  return absl::StrFormat("r%s.p%05u.%s", RankInName(owner.rank), owner.process, suffix);
}

std::optional<TraceFileOwner> ParseTraceFileName(std::string_view name) {
  const std::vector<std::string> parts = absl::StrSplit(std::string(name), '.');
  TraceFileOwner owner;
  const bool kineto = parts.size() == 5 && parts[2] == "kineto" && parts[3] == "json" && parts[4] == "gz";
  const bool profile = parts.size() == 3 && parts[2] == "cprofile";
  if (!(kineto || profile) || !ParseOwner(parts, &owner.rank, &owner.process)) return {};
  owner.kind = kineto ? TraceFileKind::kKineto : TraceFileKind::kPythonProfile;
  return owner;
}

std::optional<RecordsFile> ParseRecordsFileName(std::string_view name) {
  const std::vector<std::string> parts = absl::StrSplit(std::string(name), '.');
  RecordsFile file;
  if (parts.size() != 4 || parts[3] != "lsr" || !ParseOwner(parts, &file.rank, &file.process) ||
      !absl::SimpleAtoi(parts[2], &file.number)) {
    return {};
  }
  return file;
}

bool IsPlainFileName(std::string_view name) {
  constexpr size_t kLongest = 200;
  if (name.empty() || name.size() > kLongest || name[0] == '.') return false;
  return std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

}  // namespace lockstep::capture
