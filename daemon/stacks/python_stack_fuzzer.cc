// Reads the Python stack of a process whose memory and mappings have any content. It must end, and return
// text without control characters.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/fuzz_input_fixture.h"
#include "daemon/stacks/loaded_image.h"
#include "daemon/stacks/python_layout.h"
#include "daemon/stacks/python_stack.h"

namespace {

using namespace lockstep;
using namespace lockstep::daemon;

// The input, again and again over the whole address space, so that every pointer leads somewhere.
class RepeatedMemory final : public Memory {
 public:
  explicit RepeatedMemory(std::string_view bytes) : bytes_(bytes) {}
  bool Read(uint64_t address, void* to, size_t size) const override {
    if (bytes_.empty() || address % 4096 == 4095) return false;
    auto* out = static_cast<char*>(to);
    while (size > 0) {
      const std::string_view part = bytes_.substr(address % bytes_.size()).substr(0, size);
      std::memcpy(out, part.data(), part.size());
      out += part.size();
      address += part.size();
      size -= part.size();
    }
    return true;
  }

 private:
  const std::string_view bytes_;
};

void CheckText(std::string_view text) {
  if (std::any_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }))
    abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  const uint64_t begin = input.Number<uint64_t>();
  const auto minor = static_cast<int>(8 + input.Below(6));
  const std::string maps(input.Text(512));
  const RepeatedMemory memory(input.Rest());
  LoadedImages(maps);
  FindSymbol(memory, {.begin = begin}, "_PyRuntime");
  const auto layout = LayoutOf({3, minor}, memory, begin);
  if (!layout) return 0;
  const v1::PythonStack stack = ReadPythonFrames(memory, *layout, begin);
  if (stack.frames_size() > kMostPythonFrames) abort();
  for (const v1::PythonFrame& frame : stack.frames()) {
    CheckText(frame.file());
    CheckText(frame.function());
  }
  return 0;
}
