#include <algorithm>
#include <charconv>
#include <fstream>

#include "fmt/format.h"
#include "scenario/scenario.h"
#include "scenario/text.h"

namespace lockstep::scenario {
namespace {

// Limits of a scenario file. They bound the memory that hostile text can take.
constexpr uint64_t kMaxFileBytes = 1ull << 30;
constexpr size_t kMaxParsedRanks = 1 << 16;
constexpr size_t kMaxOps = 1 << 23;
// About eleven days, so that sums of a program's times cannot overflow.
constexpr int64_t kMaxNanos = 1'000'000'000'000'000;

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

template <typename T>
bool ToNumber(std::string_view text, T* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size();
}

// Splits a line into words from the left: `kernel s0 n3 gap=5` is a verb, two indices and a pair.
class Words {
 public:
  explicit Words(std::string_view line) : rest_(line) { Skip(); }
  bool empty() const { return rest_.empty(); }
  std::string_view Next() {
    const size_t end = std::min(rest_.find(' '), rest_.size());
    std::string_view word = rest_.substr(0, end);
    rest_.remove_prefix(end);
    Skip();
    return word;
  }

 private:
  void Skip() {
    while (!rest_.empty() && rest_.front() == ' ') rest_.remove_prefix(1);
  }
  std::string_view rest_;
};

class Parser {
 public:
  explicit Parser(std::string_view file_name) : file_(file_name) {}

  absl::StatusOr<Scenario> Run(std::string_view text) {
    while (!text.empty()) {
      const size_t end = std::min(text.find('\n'), text.size());
      std::string_view line = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      ++line_;
      if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
      if (line_ == 1 && line != kMagicLine) {
        return Fail(fmt::format("this is not a scenario: the first line must be `{}`", kMagicLine));
      }
      if (line_ == 1 || line.empty() || line.front() == '#') continue;
      if (absl::Status status = Line(Words(line)); !status.ok()) return status;
    }
    if (line_ == 0) return absl::InvalidArgumentError(fmt::format("{}: the file is empty", file_));
    if (absl::Status status = Validate(s_); !status.ok()) {
      return absl::InvalidArgumentError(fmt::format("{}: {}", file_, std::string(status.message())));
    }
    return std::move(s_);
  }

 private:
  absl::Status Fail(std::string_view what) const {
    return absl::InvalidArgumentError(fmt::format("{}:{}: {}", file_, line_, what));
  }

  absl::Status Line(Words words) {
    const std::string_view verb = words.Next();
    if (verb == "pacing") return PacingLine(words);
    if (verb == "noise_ppm") return Single(words, &s_.noise_ppm);
    if (verb == "buffered_bytes") return Single(words, &s_.buffered_bytes);
    if (verb == "name") {
      s_.names.push_back(Unescape(words.Next()));
      return absl::OkStatus();
    }
    if (verb == "group") return GroupLine(words);
    if (verb == "rank") return RankLine(words);
    if (s_.ranks.empty()) return Fail(fmt::format("`{}` must follow a `rank` line", verb));
    if (verb == "stream") return Declaration(words, &s_.ranks.back().streams);
    if (verb == "thread") return Declaration(words, &s_.ranks.back().threads);
    return OpLine(verb, words);
  }

  template <typename T>
  absl::Status Single(Words words, T* out) {
    if (!ToNumber(words.Next(), out)) return Fail("expected a non-negative whole number");
    return absl::OkStatus();
  }

  absl::Status PacingLine(Words words) {
    const std::string_view mode = words.Next();
    if (mode == "chain") return absl::OkStatus();
    if (mode != "loop") return Fail("pacing must be `chain` or `loop NANOSECONDS`");
    s_.pacing = Pacing::kLoop;
    return Time(words.Next(), &s_.period);
  }

  absl::Status GroupLine(Words words) {
    Group& group = s_.groups.emplace_back();
    while (!words.empty()) {
      const auto [key, value] = Split(words.Next());
      if (key == "comm" && ToNumber(value, &group.comm)) continue;
      if (key == "name") {
        group.name = Unescape(value);
        continue;
      }
      if (key == "members" && Numbers(value, "", &group.members)) continue;
      return Fail(
          fmt::format("unknown field `{}={}`; a group has comm=, name= and members=0,1,…", key, value));
    }
    return absl::OkStatus();
  }

  absl::Status RankLine(Words words) {
    if (s_.ranks.size() >= kMaxParsedRanks)
      return Fail(fmt::format("there are more than {} ranks", kMaxParsedRanks));
    Rank& rank = s_.ranks.emplace_back();
    while (!words.empty()) {
      const auto [key, value] = Split(words.Next());
      if (key == "host") {
        rank.host = Unescape(value);
      } else if (key != "device" || !ToNumber(value, &rank.device)) {
        return Fail(fmt::format("unknown field `{}={}`; a rank has host= and device=", key, value));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Declaration(Words words, std::vector<uint32_t>* out) {
    const auto [key, value] = Split(words.Next());
    uint32_t id = 0;
    if (key != "id" || !ToNumber(value, &id)) return Fail("expected id=NUMBER");
    out->push_back(id);
    return absl::OkStatus();
  }

  absl::Status OpLine(std::string_view verb, Words words) {
    if (++ops_ > kMaxOps) return Fail(fmt::format("there are more than {} operations", kMaxOps));
    static constexpr struct {
      std::string_view verb;
      OpKind kind;
      std::string_view indices;  // the kinds of the index words that must follow
    } kVerbs[] = {
        {"call", OpKind::kCall, "t"},         {"push", OpKind::kPush, "tn"},
        {"pop", OpKind::kPop, "t"},           {"kernel", OpKind::kKernel, "sn"},
        {"copy", OpKind::kCopy, "s"},         {"set", OpKind::kSet, "s"},
        {"coll", OpKind::kCollective, "sng"}, {"event", OpKind::kRecordEvent, "se"},
        {"after", OpKind::kWaitEvent, "se"},
    };
    for (const auto& v : kVerbs) {
      if (v.verb != verb) continue;
      Op op;
      op.kind = v.kind;
      op.line = line_;
      for (char letter : v.indices) {
        if (absl::Status status = Index(letter, words.Next(), &op); !status.ok()) return status;
      }
      return Rest(words, std::move(op));
    }
    return Fail(
        fmt::format("unknown operation `{}`; use call, push, pop, kernel, copy, set, coll, event or after",
                    verb.substr(0, 40)));
  }

  absl::Status Index(char letter, std::string_view word, Op* op) {
    uint32_t* target = letter == 't'   ? &op->thread
                       : letter == 'f' ? &op->follows
                       : letter == 's' ? &op->stream
                       : letter == 'n' ? &op->name
                       : letter == 'g' ? &op->group
                                       : &op->event;
    const char prefix = letter == 'f' ? 't' : letter;
    if (word.size() < 2 || word[0] != prefix || !ToNumber(word.substr(1), target)) {
      return Fail(fmt::format("expected an index like `{1}0`, got `{0}`", word.substr(0, 40),
                              std::string(1, prefix)));
    }
    return absl::OkStatus();
  }

  absl::Status Rest(Words words, Op op) {
    if (op.kind == OpKind::kCall) {
      const std::string_view id = words.Next();
      op.driver = !id.empty() && id[0] == 'd';
      if (id.size() < 2 || (id[0] != 'r' && id[0] != 'd') || !ToNumber(id.substr(1), &op.cbid)) {
        return Fail(
            "a call needs CUPTI's callback id, as in `call t0 r211` (runtime) or `call t0 d307` (driver)");
      }
    }
    if (op.kind == OpKind::kCollective) {
      const std::string_view name = words.Next();
      if (!ToCollective(name, &op.collective))
        return Fail(fmt::format("unknown collective `{}`", name.substr(0, 40)));
    }
    while (!words.empty()) {
      const std::string_view word = words.Next();
      if (absl::Status status = Field(word, &op); !status.ok()) return status;
    }
    s_.ranks.back().program.push_back(std::move(op));
    return absl::OkStatus();
  }

  absl::Status Field(std::string_view word, Op* op) {
    const auto [key, value] = Split(word);
    Geometry& g = op->geometry;
    bool ok = true;
    if (key == "gap") return Time(value, &op->gap);
    if (key == "own") return Time(value, &op->service_time);
    if (key == "tail") return Time(value, &op->tail);
    if (key == "more") return More(value, op);
    if (key == "follows") return Index('f', value, op);
    if (key == "unlaunched")
      op->launched = false;
    else if (key == "wait")
      ok = WaitField(value, op);
    else if (key == "grid")
      ok = Triple(value, g.grid);
    else if (key == "block")
      ok = Triple(value, g.block);
    else if (key == "regs")
      ok = ToNumber(value, &g.registers);
    else if (key == "smem")
      ok = ToNumber(value, &g.static_shared_bytes);
    else if (key == "dsmem")
      ok = ToNumber(value, &g.dynamic_shared_bytes);
    else if (key == "bytes")
      ok = ToNumber(value, &op->bytes);
    else if (key == "kind")
      ok = ToNumber(value, &op->copy_kind);
    else if (key == "value")
      ok = ToNumber(value, &op->value);
    else if (key == "peer")
      ok = ToNumber(value, &op->peer);
    else if (key == "type")
      op->datatype = Unescape(value);
    else
      return Fail(fmt::format("unknown field `{}`", key.substr(0, 40)));
    return ok ? absl::OkStatus() : Fail(fmt::format("invalid value of {}=", key));
  }

  static bool ToCollective(std::string_view name, Collective* out) {
    for (int i = 0; i < kCollectives; ++i) {
      *out = static_cast<Collective>(i);
      if (CollectiveName(*out) == name) return true;
    }
    return false;
  }

  absl::Status More(std::string_view value, Op* op) {
    while (true) {
      // A message takes as much memory as a short operation.
      if (++ops_ > kMaxOps) return Fail(fmt::format("there are more than {} operations", kMaxOps));
      const size_t end = std::min(value.find(','), value.size());
      const std::string_view part = value.substr(0, end);
      const size_t peer = std::min(part.find(':'), part.size()), bytes = part.rfind(':');
      Message& m = op->more.emplace_back();
      if (peer >= bytes || bytes == std::string_view::npos ||
          !ToCollective(part.substr(0, peer), &m.collective) || NeedsOf(m.collective) != Needs::kPeer ||
          !ToNumber(part.substr(peer + 1, bytes - peer - 1), &m.peer) ||
          !ToNumber(part.substr(bytes + 1), &m.bytes)) {
        return Fail(
            fmt::format("invalid message `{}`; more= lists messages as in more=send:1:4096,receive:0:4096",
                        part.substr(0, 40)));
      }
      if (end == value.size()) return absl::OkStatus();
      value.remove_prefix(end + 1);
    }
  }

  static bool WaitField(std::string_view value, Op* op) {
    op->wait = value == "all" ? Wait::kAllStreams : Wait::kStreams;
    return value == "all" || Numbers(value, "s", &op->wait_streams);
  }

  static bool Numbers(std::string_view value, std::string_view prefix, std::vector<uint32_t>* out) {
    while (true) {
      const size_t end = std::min(value.find(','), value.size());
      const std::string_view part = value.substr(0, end);
      uint32_t number = 0;
      if (part.substr(0, prefix.size()) != prefix || !ToNumber(part.substr(prefix.size()), &number))
        return false;
      if (out->size() >= kMaxParsedRanks) return false;
      out->push_back(number);
      if (end == value.size()) return true;
      value.remove_prefix(end + 1);
    }
  }

  static bool Triple(std::string_view value, uint32_t (&out)[3]) {
    std::vector<uint32_t> numbers;
    if (!Numbers(value, "", &numbers) || numbers.size() != 3) return false;
    for (int i = 0; i < 3; ++i) out[i] = numbers[i];
    return true;
  }

  absl::Status Time(std::string_view text, Nanos* out) {
    int64_t ns = 0;
    if (!ToNumber(text, &ns) || ns > kMaxNanos || ns < -kMaxNanos) {
      return Fail(fmt::format("a time must be a whole number of nanoseconds between -{} and {}", kMaxNanos,
                              kMaxNanos));
    }
    *out = Nanos(ns);
    return absl::OkStatus();
  }

  static std::pair<std::string_view, std::string_view> Split(std::string_view word) {
    const size_t eq = word.find('=');
    if (eq == std::string_view::npos) return {word, {}};
    return {word.substr(0, eq), word.substr(eq + 1)};
  }

  std::string file_;
  Scenario s_;
  uint32_t line_ = 0;
  size_t ops_ = 0;
};

}  // namespace

std::string Unescape(std::string_view word) {
  std::string out;
  for (size_t i = 0; i < word.size(); ++i) {
    const int high = word[i] == '%' && i + 2 < word.size() ? HexDigit(word[i + 1]) : -1;
    const int low = high >= 0 ? HexDigit(word[i + 2]) : -1;
    if (low < 0) {
      out.push_back(word[i]);
    } else {
      out.push_back(static_cast<char>(high * 16 + low));
      i += 2;
    }
  }
  return out;
}

absl::StatusOr<Scenario> Parse(std::string_view text, std::string_view file_name) {
  return Parser(file_name).Run(text);
}

absl::StatusOr<Scenario> ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in) return absl::NotFoundError(fmt::format("cannot open {}; give the path of a scenario file", path));
  const auto size = static_cast<uint64_t>(std::max<std::streamoff>(in.tellg(), 0));
  if (size > kMaxFileBytes)
    return absl::InvalidArgumentError(
        fmt::format("{} exceeds the limit of {} bytes for a scenario", path, kMaxFileBytes));
  std::string text(size, '\0');
  in.seekg(0);
  in.read(text.data(), static_cast<std::streamsize>(size));
  text.resize(static_cast<size_t>(in.gcount()));
  return Parse(text, path);
}

}  // namespace lockstep::scenario
