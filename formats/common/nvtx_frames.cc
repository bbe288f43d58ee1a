#include "formats/common/nvtx_frames.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "formats/common/python_literal.h"

namespace lockstep::formats {
namespace {

using capture::FrameDetail;
using capture::FrameKind;

// The content of a range's name, parsed.
struct Reading {
  enum class What : uint8_t { kFrame, kCallTrace };
  What what = What::kFrame;
  std::string_view name;
  std::string made_name;  // set if the name is composed and not a part of the text
  std::string shapes, types, values, stack;
  int64_t sequence = -1;
  FrameKind kind = FrameKind::kAnnotation;
};

// Returns the text after `key`; empty: the text lacks the key.
std::string_view PartOf(std::string_view text, std::string_view key) {
  const size_t at = text.find(key);
  if (at == std::string_view::npos) return "";
  text.remove_prefix(at + key.size());
  return text;
}

int64_t NumberAtStart(std::string_view text) {
  int64_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && value >= 0 ? value : -1;
}

// Returns only the list of "[[64, 3, 7, 7], []], input_op_ids = …". Empty: the text does not start with a
// list, or the list is truncated.
std::string_view ListAtStart(std::string_view text) {
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '[') {
      ++depth;
    } else if (c == ']') {
      if (--depth == 0) return text.substr(0, i + 1);
    } else if (depth == 0 ||
               (!absl::ascii_isdigit(static_cast<unsigned char>(c)) && c != ',' && c != ' ' && c != '-')) {
      return "";
    }
    if (depth > 3) return "";
  }
  return "";
}

// True for PyTorch's operators and autograd's nodes. The other ranges of emit_nvtx come from record_function.
bool NamesOperator(std::string_view name) {
  if (name.starts_with("autograd::engine::") || name.starts_with("torch::autograd::")) return true;
  if (name.starts_with("ProfilerStep#") || name.starts_with("FSDP::") || name.starts_with("Optimizer."))
    return false;
  return name.find_first_of(" (#") == std::string_view::npos;
}

std::optional<Reading> ReadEmitted(std::string_view text) {
  size_t end = std::string_view::npos;
  for (const std::string_view key : {", seq = ", ", op_id = ", ", sizes = "})
    end = std::min(end, text.find(key));
  if (end == std::string_view::npos || end == 0) return std::nullopt;
  Reading r{.name = text.substr(0, end)};
  const std::string_view rest = text.substr(end);
  r.sequence = NumberAtStart(PartOf(rest, ", seq = "));
  r.shapes = ListAtStart(PartOf(rest, ", sizes = "));
  if (NamesOperator(r.name)) r.kind = FrameKind::kOperator;
  return r;
}

// PyProf names types as torch.dtype does; frames name them as C++ does, like Kineto.
std::string_view TypeName(std::string_view dtype) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"float16", "c10::Half"},   {"half", "c10::Half"},  {"bfloat16", "c10::BFloat16"},
      {"float32", "float"},       {"float64", "double"},  {"int8", "signed char"},
      {"uint8", "unsigned char"}, {"int16", "short int"}, {"int32", "int"},
      {"int64", "long int"}};
  for (const auto& [theirs, ours] : kNames) {
    if (theirs == dtype) return ours;
  }
  return dtype;
}

void AppendQuoted(std::string_view text, std::string& list) {
  list += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') list += '\\';
    list += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  list += '"';
}

std::string Spelled(const PythonLiteral& value) {
  if (value.kind != PythonLiteral::Kind::kList) return value.text;
  std::string out = "[";
  for (const PythonLiteral& item : value.items)
    absl::StrAppend(&out, out.size() > 1 ? ", " : "", Spelled(item));
  return out + "]";
}

// A shape holds only whole numbers.
std::optional<std::string> ShapeOf(const PythonLiteral* value) {
  if (value == nullptr || value->kind != PythonLiteral::Kind::kList) return std::nullopt;
  for (const PythonLiteral& item : value->items) {
    if (item.kind != PythonLiteral::Kind::kWord || NumberAtStart(item.text) < 0) return std::nullopt;
  }
  return Spelled(*value);
}

void AddArgument(const PythonLiteral& argument, Reading& r) {
  const std::string_view between = r.shapes.size() > 1 ? ", " : "";
  const PythonLiteral* type = argument.Find("type");
  const PythonLiteral* dtype = argument.Find("dtype");
  const PythonLiteral* value = argument.Find("value");
  const PythonLiteral* name = argument.Find("name");
  const bool is_tensor = type != nullptr && type->text == "tensor";
  absl::StrAppend(&r.shapes, std::string(between),
                  is_tensor ? ShapeOf(argument.Find("shape")).value_or("[]") : "[]");
  absl::StrAppend(&r.types, std::string(between));
  AppendQuoted(is_tensor && dtype != nullptr ? TypeName(dtype->text) : is_tensor ? "" : "Scalar", r.types);
  absl::StrAppend(&r.values, std::string(between));
  std::string text = value != nullptr ? Spelled(*value) : "";
  if (!text.empty() && name != nullptr && !name->text.empty()) text = absl::StrCat(name->text, "=", text);
  AppendQuoted(text, r.values);
}

std::optional<Reading> ReadPyProf(std::string_view text) {
  if (!text.starts_with("{'")) return std::nullopt;
  const auto dict = ParsePython(text);
  if (!dict) return std::nullopt;
  Reading r;
  if (const PythonLiteral* trace = dict->Find("traceMarker");
      trace != nullptr && trace->kind == PythonLiteral::Kind::kList) {
    r.what = Reading::What::kCallTrace;
    // PyProf lists the outermost call first; frames list the innermost first.
    for (size_t i = trace->items.size(); i-- > 0;)
      absl::StrAppend(&r.stack, r.stack.empty() ? "" : ";", trace->items[i].text);
    return r;
  }
  const PythonLiteral* mod = dict->Find("mod");
  const PythonLiteral* op = dict->Find("op");
  const PythonLiteral* args = dict->Find("args");
  if (mod == nullptr || op == nullptr || op->text.empty()) return std::nullopt;
  r.made_name = absl::StrCat(mod->text, ".", op->text);
  r.kind = FrameKind::kOperator;
  if (args == nullptr || args->kind != PythonLiteral::Kind::kList) return r;
  r.shapes = r.types = r.values = "[";
  for (const PythonLiteral& argument : args->items) AddArgument(argument, r);
  for (std::string* list : {&r.shapes, &r.types, &r.values}) *list += "]";
  return r;
}

Reading Read(std::string_view text, std::string_view domain) {
  if (auto marker = ReadPyProf(text)) return *std::move(marker);
  if (auto emitted = ReadEmitted(text)) return *std::move(emitted);
  Reading r{.name = text};
  // Without shapes, emit_nvtx writes operators outside of the autograd graph as a bare name. NCCL writes its
  // calls in its own domain.
  if (text.starts_with("aten::") || text.starts_with("autograd::engine::") || domain == "NCCL")
    r.kind = FrameKind::kOperator;
  return r;
}

class Builder {
 public:
  explicit Builder(capture::StringTable& strings) : strings_(strings) {}

  void Add(const capture::HostRange& range) {
    if (range.end <= range.start) return;
    const auto [it, fresh] = known_.try_emplace(std::pair(range.name, range.domain));
    if (fresh) it->second = Intern(Read(strings_.Text(range.name), strings_.Text(range.domain)));
    const Known& known = it->second;
    if (known.is_call_trace) {
      traces_.push_back({range.thread, range.start, range.end, known.detail.stack});
      return;
    }
    out_.frames.push_back({.start = range.start,
                           .end = range.end,
                           .name = known.name,
                           .thread = range.thread,
                           .kind = known.kind});
    if (known.detail == FrameDetail{}) return;
    out_.frames.back().detail = static_cast<uint32_t>(out_.details.size());
    out_.details.push_back(known.detail);
  }

  capture::HostFrames Take() {
    std::stable_sort(out_.frames.begin(), out_.frames.end(),
                     [](const capture::HostFrame& a, const capture::HostFrame& b) {
                       return std::tie(a.thread, a.start, b.end) < std::tie(b.thread, b.start, a.end);
                     });
    AddCallTraces();
    return std::move(out_);
  }

 private:
  struct Known {
    NameId name;
    FrameDetail detail;
    FrameKind kind = FrameKind::kAnnotation;
    bool is_call_trace = false;
  };
  struct CallTrace {
    ThreadId thread;
    HostTime start, end;
    NameId stack;
  };

  Known Intern(Reading&& r) {
    // `r.name` may point into the table. That is safe, because texts in the table do not move.
    Known known{.name = strings_.Intern(r.made_name.empty() ? r.name : r.made_name), .kind = r.kind};
    known.is_call_trace = r.what == Reading::What::kCallTrace;
    known.detail = {.shapes = strings_.Intern(r.shapes),
                    .types = strings_.Intern(r.types),
                    .values = strings_.Intern(r.values),
                    .stack = strings_.Intern(r.stack),
                    .sequence = r.sequence};
    return known;
  }

  // A call trace belongs to the first frame inside it, because PyProf opens both ranges directly after each
  // other.
  void AddCallTraces() {
    for (const CallTrace& trace : traces_) {
      const auto it =
          std::lower_bound(out_.frames.begin(), out_.frames.end(), std::tuple(trace.thread, trace.start),
                           [](const capture::HostFrame& f, const auto& wanted) {
                             return std::tuple(f.thread, f.start) < wanted;
                           });
      if (it == out_.frames.end() || it->thread != trace.thread || it->end > trace.end) continue;
      if (it->detail == capture::kNone) {
        it->detail = static_cast<uint32_t>(out_.details.size());
        out_.details.emplace_back();
      }
      out_.details[it->detail].stack = trace.stack;
    }
  }

  capture::StringTable& strings_;
  capture::HostFrames out_;
  std::vector<CallTrace> traces_;
  absl::flat_hash_map<std::pair<NameId, NameId>, Known> known_;
};

}  // namespace

capture::HostFrames FramesOfRanges(std::span<const capture::HostRange> ranges,
                                   capture::StringTable& strings) {
  Builder builder(strings);
  for (const capture::HostRange& range : ranges) builder.Add(range);
  return builder.Take();
}

void AddNvtxFrames(capture::Capture& capture) {
  // Entries of one process have the same ranges, so they share frames.
  absl::flat_hash_map<std::tuple<RankId, int32_t, uint32_t>, std::shared_ptr<const capture::HostFrames>> made;
  for (capture::RankData& rank : capture.ranks) {
    if (rank.frames != nullptr || rank.ranges.empty()) continue;
    auto& frames = made[std::tuple(rank.rank, rank.pid, rank.incarnation)];
    if (frames == nullptr)
      frames = std::make_shared<const capture::HostFrames>(FramesOfRanges(rank.ranges, capture.strings));
    rank.frames = frames;
  }
}

}  // namespace lockstep::formats
