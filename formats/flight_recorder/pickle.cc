#include "formats/flight_recorder/pickle.h"

#include <charconv>
#include <string>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/rpc/status_macros.h"

namespace lockstep::formats {
namespace {

// Pickle's opcodes by their names in Python's module pickletools.
enum Op : uint8_t {
  kMark = '(',
  kStop = '.',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNone = 'N',
  kBinUnicode = 'X',
  kAppend = 'a',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kSetItems = 'u',
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kBinFloat = 'G',
  kBinString = 'T',
  kShortBinString = 'U',
  kEmptyTuple = ')',
  kEmptyList = ']',
  kEmptyDict = '}',
  kProto = 0x80,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kMemoize = 0x94,
  kFrame = 0x95,
};

constexpr size_t kMostValues = 4u << 20;
constexpr uint32_t kMarkOnStack = ~0u;

}  // namespace

class PickleParser {
 public:
  explicit PickleParser(std::string_view bytes) : bytes_(bytes) {}

  absl::StatusOr<Pickle> Parse() {
    bool stopped = false;
    while (!stopped) {
      if (pickle_.values_.size() > kMostValues)
        return Error(absl::StrCat("has more than ", kMostValues, " values"));
      opcode_at_ = at_;
      LOCKSTEP_ASSIGN_OR_RETURN(const uint64_t opcode, Unsigned(1));
      stopped = opcode == kStop;
      if (!stopped) LOCKSTEP_RETURN_IF_ERROR(Do(static_cast<uint8_t>(opcode)));
    }
    LOCKSTEP_ASSIGN_OR_RETURN(pickle_.root_, Pop());
    return std::move(pickle_);
  }

 private:
  using Index = Pickle::Index;
  using Kind = Pickle::Kind;

  absl::Status Error(const std::string& what) const {
    return absl::InvalidArgumentError(absl::StrCat("byte ", opcode_at_, " of the pickle ", what));
  }

  absl::StatusOr<std::string_view> Take(uint64_t count) {
    if (count > bytes_.size() - at_) return Error("needs more bytes than the file has");
    at_ += count;
    return bytes_.substr(at_ - count, count);
  }
  // Numbers are little-endian.
  absl::StatusOr<uint64_t> Unsigned(size_t width) {
    LOCKSTEP_ASSIGN_OR_RETURN(const std::string_view taken, Take(width));
    uint64_t value = 0;
    for (size_t i = width; i > 0; --i) value = value << 8 | static_cast<uint8_t>(taken[i - 1]);
    return value;
  }

  Pickle::Value& Push(Kind kind) {
    stack_.push_back(static_cast<Index>(pickle_.values_.size()));
    pickle_.values_.push_back({.kind = kind});
    return pickle_.values_.back();
  }
  absl::Status PushNumber(absl::StatusOr<uint64_t> bits, size_t width) {
    LOCKSTEP_RETURN_IF_ERROR(bits.status());
    // Extends the sign of a number of `width` bytes; width 0: unsigned.
    const size_t shift = width == 0 ? 0 : 64 - 8 * width;
    Push(Kind::kNumber).number = static_cast<int64_t>(*bits << shift) >> shift;
    return absl::OkStatus();
  }
  absl::Status PushText(size_t width) {
    LOCKSTEP_ASSIGN_OR_RETURN(const uint64_t length, Unsigned(width));
    LOCKSTEP_ASSIGN_OR_RETURN(Push(Kind::kText).text, Take(length));
    return absl::OkStatus();
  }
  absl::StatusOr<Index> Pop() {
    if (stack_.empty() || stack_.back() == kMarkOnStack) return Error("takes a value that is not there");
    const Index index = stack_.back();
    stack_.pop_back();
    return index;
  }
  absl::StatusOr<std::vector<Index>> PopToMark() {
    size_t mark = stack_.size();
    while (mark > 0 && stack_[mark - 1] != kMarkOnStack) --mark;
    if (mark == 0) return Error("needs a mark that is not there");
    std::vector<Index> items(stack_.begin() + static_cast<ptrdiff_t>(mark), stack_.end());
    stack_.resize(mark - 1);
    return items;
  }
  absl::StatusOr<std::vector<Index>> PopMany(size_t count) {
    std::vector<Index> items(count);
    for (size_t i = count; i > 0; --i) {
      LOCKSTEP_ASSIGN_OR_RETURN(items[i - 1], Pop());
    }
    return items;
  }
  // Appends to the list or dict on the top of the stack.
  absl::Status AddTo(Kind kind, const absl::StatusOr<std::vector<Index>>& items) {
    LOCKSTEP_RETURN_IF_ERROR(items.status());
    if (stack_.empty() || stack_.back() == kMarkOnStack || pickle_.values_[stack_.back()].kind != kind)
      return Error("adds to a value of another kind");
    if (kind == Kind::kDict && items->size() % 2 != 0) return Error("adds a key without a value");
    std::vector<Index>& to = pickle_.values_[stack_.back()].items;
    to.insert(to.end(), items->begin(), items->end());
    return absl::OkStatus();
  }
  absl::Status PushTuple(absl::StatusOr<std::vector<Index>> items) {
    LOCKSTEP_RETURN_IF_ERROR(items.status());
    Push(Kind::kList).items = *std::move(items);
    return absl::OkStatus();
  }
  absl::Status Put(const absl::StatusOr<uint64_t>& place) {
    LOCKSTEP_RETURN_IF_ERROR(place.status());
    if (stack_.empty() || stack_.back() == kMarkOnStack) return Error("remembers a value that is not there");
    memo_[*place] = stack_.back();
    return absl::OkStatus();
  }
  absl::Status Get(const absl::StatusOr<uint64_t>& place) {
    LOCKSTEP_RETURN_IF_ERROR(place.status());
    const auto found = memo_.find(*place);
    if (found == memo_.end()) return Error("uses a value that was not remembered");
    stack_.push_back(found->second);
    return absl::OkStatus();
  }

  absl::Status Do(uint8_t opcode) {
    switch (opcode) {
      case kProto:
        return Unsigned(1).status();
      case kFrame:
        return Unsigned(8).status();
      case kMark:
        stack_.push_back(kMarkOnStack);
        return absl::OkStatus();
      case kNone:
        Push(Kind::kNone);
        return absl::OkStatus();
      case kNewTrue:
      case kNewFalse:
        Push(Kind::kNumber).number = opcode == kNewTrue;
        return absl::OkStatus();
      case kEmptyDict:
        Push(Kind::kDict);
        return absl::OkStatus();
      case kEmptyList:
      case kEmptyTuple:
        Push(Kind::kList);
        return absl::OkStatus();
      case kBinInt:
        return PushNumber(Unsigned(4), 4);
      case kBinInt1:
        return PushNumber(Unsigned(1), 0);
      case kBinInt2:
        return PushNumber(Unsigned(2), 0);
      case kLong1:
        return PushLong();
      case kBinFloat:
        return PushReal();
      default:
        return DoOnParts(opcode);
    }
  }
  // Opcodes of texts, containers and the memo.
  absl::Status DoOnParts(uint8_t opcode) {
    switch (opcode) {
      case kShortBinUnicode:
      case kShortBinString:
      case kShortBinBytes:
        return PushText(1);
      case kBinUnicode:
      case kBinString:
      case kBinBytes:
        return PushText(4);
      case kBinUnicode8:
        return PushText(8);
      case kAppend:
        return AddTo(Kind::kList, PopMany(1));
      case kAppends:
        return AddTo(Kind::kList, PopToMark());
      case kSetItem:
        return AddTo(Kind::kDict, PopMany(2));
      case kSetItems:
        return AddTo(Kind::kDict, PopToMark());
      case kTuple:
        return PushTuple(PopToMark());
      case kTuple1:
      case kTuple2:
      case kTuple3:
        return PushTuple(PopMany(opcode - kTuple1 + 1u));
      case kBinPut:
        return Put(Unsigned(1));
      case kLongBinPut:
        return Put(Unsigned(4));
      case kMemoize:
        return Put(memo_.size());
      case kBinGet:
        return Get(Unsigned(1));
      case kLongBinGet:
        return Get(Unsigned(4));
      default:
        return Error(absl::StrFormat(
            "has opcode 0x%02x, which is not one of plain data: it could run code, and is refused", opcode));
    }
  }
  absl::Status PushLong() {
    LOCKSTEP_ASSIGN_OR_RETURN(const uint64_t width, Unsigned(1));
    if (width > 8) return Error("has a number of more than 64 bits");
    return PushNumber(Unsigned(width), width == 0 ? 8 : width);
  }
  absl::Status PushReal() {
    LOCKSTEP_RETURN_IF_ERROR(Take(8).status());
    Push(Kind::kReal);
    return absl::OkStatus();
  }

  const std::string_view bytes_;
  size_t at_ = 0;
  size_t opcode_at_ = 0;
  std::vector<uint32_t> stack_;
  std::unordered_map<uint64_t, Index> memo_;
  Pickle pickle_;
};

absl::StatusOr<Pickle> Pickle::Parse(std::string_view bytes) { return PickleParser(bytes).Parse(); }

const Pickle::Value* Pickle::Find(const Value& dict, std::string_view key) const {
  if (dict.kind != Kind::kDict) return nullptr;
  for (size_t i = 0; i + 1 < dict.items.size(); i += 2) {
    const Value& name = values_[dict.items[i]];
    if (name.kind == Kind::kText && name.text == key) return &values_[dict.items[i + 1]];
  }
  return nullptr;
}

int64_t Pickle::Number(const Value& dict, std::string_view key) const {
  const Value* value = Find(dict, key);
  if (value == nullptr) return 0;
  if (value->kind == Kind::kText) {
    int64_t number = 0;
    std::from_chars(value->text.data(), value->text.data() + value->text.size(), number);
    return number;
  }
  return value->kind == Kind::kNumber ? value->number : 0;
}

std::string_view Pickle::Text(const Value& dict, std::string_view key) const {
  const Value* value = Find(dict, key);
  return value != nullptr && value->kind == Kind::kText ? value->text : std::string_view();
}

}  // namespace lockstep::formats
