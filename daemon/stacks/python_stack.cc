#include "daemon/stacks/python_stack.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/log/clean_text.h"
#include "daemon/stacks/loaded_image.h"
#include "daemon/stacks/python_layout.h"
#include "daemon/stacks/python_lines.h"

namespace lockstep::daemon {
namespace {

constexpr int kMostThreads = 4096;
constexpr int64_t kMostInstructions = 64 << 20;  // bytes
constexpr size_t kLongestTable = 128u << 10;
constexpr size_t kLongestText = 512;
constexpr uint64_t kTagBits = 3;  // pointers to objects may have a mark in their lowest bits

struct Python {
  PythonVersion version;
  uint64_t runtime = 0;
};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Releases before 3.11 do not export their version, but the file's name has it: python3.9, or
// libpython3.9.so.1.0.
PythonVersion VersionInName(std::string_view path) {
  constexpr std::string_view kName = "python3.";
  const std::string_view name = path.substr(path.rfind('/') + 1);
  const size_t at = name.find(kName);
  if (at == std::string_view::npos) return {};
  PythonVersion version = {.major = 3};
  for (size_t i = at + kName.size(); i < name.size() && i < at + kName.size() + 2 && IsDigit(name[i]); ++i)
    version.minor = version.minor * 10 + (name[i] - '0');
  return version;
}

PythonVersion VersionOf(const Memory& memory, const LoadedImage& image) {
  const std::optional<uint64_t> stated = FindSymbol(memory, image, "Py_Version");
  if (!stated) return VersionInName(image.path);
  const uint64_t version = memory.Get<uint64_t>(*stated).value_or(0);
  return {.major = static_cast<int>(version >> 24 & 0xFF), .minor = static_cast<int>(version >> 16 & 0xFF)};
}

std::optional<Python> FindPython(const Memory& memory, std::string_view maps) {
  for (const LoadedImage& image : LoadedImages(maps)) {
    const std::optional<uint64_t> runtime = FindSymbol(memory, image, "_PyRuntime");
    if (runtime) return Python{VersionOf(memory, image), *runtime};
  }
  return std::nullopt;
}

void AppendUtf8(uint32_t character, std::string& text) {
  if (character < 0x80) {
    text += static_cast<char>(character);
    return;
  }
  const int more = character < 0x800 ? 1 : character < 0x10000 ? 2 : 3;
  constexpr uint8_t kLeads[] = {0, 0xC0, 0xE0, 0xF0};
  text += static_cast<char>(kLeads[more] | (character >> 6 * more & 0x3F));
  for (int i = more - 1; i >= 0; --i) text += static_cast<char>(0x80 | (character >> 6 * i & 0x3F));
}

class Reader {
 public:
  Reader(const Memory& memory, const PythonLayout& layout) : memory_(memory), layout_(layout) {}

  // The main thread's state is the oldest, which is the last in the list.
  uint64_t MainThread(uint64_t runtime) const {
    const uint64_t interpreter = memory_.Pointer(runtime + layout_.main_interpreter);
    if (interpreter == 0) return 0;
    uint64_t thread = memory_.Pointer(interpreter + layout_.first_thread);
    for (int i = 0; i < kMostThreads && thread != 0; ++i) {
      const uint64_t next = memory_.Pointer(thread + layout_.next_thread);
      if (next == 0) return thread;
      thread = next;
    }
    return 0;
  }

  void AddFrames(uint64_t thread, v1::PythonStack& stack) const {
    uint64_t frame = memory_.Pointer(thread + layout_.frame);
    if (frame != 0 && layout_.current_frame != PythonLayout::kAbsent)
      frame = memory_.Pointer(frame + layout_.current_frame);
    // Frames without code mark entries from C.
    for (int i = 0; i < 2 * kMostPythonFrames && frame != 0; ++i) {
      if (stack.frames_size() == kMostPythonFrames) {
        stack.set_more(true);
        return;
      }
      AddFrame(frame, stack);
      frame = memory_.Pointer(frame + layout_.caller);
    }
  }

 private:
  void AddFrame(uint64_t frame, v1::PythonStack& stack) const {
    if (layout_.owner != PythonLayout::kAbsent &&
        memory_.Get<uint8_t>(frame + layout_.owner).value_or(kPythonFrameOfC) >= kPythonFrameOfC)
      return;
    const uint64_t code = memory_.Pointer(frame + layout_.code) & ~kTagBits;
    if (code == 0) return;
    v1::PythonFrame& to = *stack.add_frames();
    to.set_file(Text(memory_.Pointer(code + layout_.file)));
    to.set_function(Text(memory_.Pointer(code + layout_.function)));
    to.set_line(LineOf(layout_.lines, Bytes(memory_.Pointer(code + layout_.line_table)),
                       memory_.Get<int32_t>(code + layout_.first_line).value_or(0),
                       Instruction(frame, code)));
  }

  // Offset in bytes from the code's first instruction.
  int64_t Instruction(uint64_t frame, uint64_t code) const {
    if (layout_.bytes != PythonLayout::kAbsent) {
      const uint64_t offset = memory_.Pointer(frame + layout_.instruction) - (code + layout_.bytes);
      return static_cast<int64_t>(std::min<uint64_t>(offset, kMostInstructions));
    }
    const int32_t number = memory_.Get<int32_t>(frame + layout_.instruction).value_or(0);
    return layout_.lines == PythonLayout::Lines::kRanges ? int64_t{number} * 2 : number;
  }

  std::string Bytes(uint64_t object) const {
    if (object == 0) return "";
    const uint64_t size = memory_.Pointer(object + layout_.byte_count);
    if (size == 0 || size > kLongestTable) return "";
    std::string bytes(size, '\0');
    return memory_.Read(object + layout_.byte_text, bytes.data(), size) ? bytes : "";
  }

  // Only strings in one piece, as those of code objects are.
  std::string Text(uint64_t object) const {
    if (object == 0) return "";
    const uint32_t state = memory_.Get<uint32_t>(object + layout_.string_state).value_or(0);
    const uint32_t width = state >> 2 & 7;
    const bool compact = (state >> 5 & 1) != 0;
    const bool ascii = (state >> 6 & 1) != 0;
    if (!compact || (width != 1 && width != 2 && width != 4)) return "";
    const uint64_t characters =
        std::min<uint64_t>(memory_.Pointer(object + layout_.string_length), kLongestText);
    std::string raw(characters * width, '\0');
    if (!memory_.Read(object + (ascii ? layout_.ascii_text : layout_.wide_text), raw.data(), raw.size()))
      return "";
    std::string text;
    for (size_t i = 0; i < raw.size(); i += width) {
      uint32_t character = 0;
      for (size_t byte = width; byte > 0; --byte)
        character = character << 8 | static_cast<uint8_t>(raw[i + byte - 1]);
      AppendUtf8(character & 0x1FFFFF, text);
    }
    return CleanText(text, kLongestText);
  }

  const Memory& memory_;
  const PythonLayout& layout_;
};

}  // namespace

v1::PythonStack ReadPythonFrames(const Memory& memory, const PythonLayout& layout, uint64_t runtime) {
  v1::PythonStack stack;
  const Reader reader(memory, layout);
  const uint64_t thread = reader.MainThread(runtime);
  if (thread != 0) reader.AddFrames(thread, stack);
  return stack;
}

v1::PythonStack ReadPythonStack(const Memory& memory, std::string_view maps) {
  v1::PythonStack stack;
  const std::optional<Python> python = FindPython(memory, maps);
  if (!python) {
    stack.set_problem("the process runs no Python");
    return stack;
  }
  const std::string version = absl::StrCat("Python ", python->version.major, ".", python->version.minor);
  const std::optional<PythonLayout> layout = LayoutOf(python->version, memory, python->runtime);
  if (!layout) {
    stack.set_problem(absl::StrCat(version, " is not known"));
    return stack;
  }
  stack = ReadPythonFrames(memory, *layout, python->runtime);
  stack.set_version(version);
  if (stack.frames_size() == 0) stack.set_problem(absl::StrCat(version, " runs no code in the main thread"));
  return stack;
}

}  // namespace lockstep::daemon
