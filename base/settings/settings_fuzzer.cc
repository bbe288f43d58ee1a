// Reads any arguments, environment and configuration file as those of lockstepd or lockstep-aggregator. Wrong
// ones must end with exit code 2 and a message.
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "aggregator/aggregator_options.h"
#include "base/fuzz_input_fixture.h"
#include "daemon/options.h"

namespace {

constexpr char kFile[] = "/dev/shm/lockstep-settings-fuzzer.conf";

// The lines of a text as main receives them.
class Words {
 public:
  Words(std::vector<std::string> first, std::string_view text) : words_(std::move(first)) {
    // A word has no byte 0.
    for (const absl::string_view line :
         absl::StrSplit(absl::string_view(text.data(), text.size()), '\n', absl::SkipEmpty()))
      words_.emplace_back(line.substr(0, line.find('\0')));
    for (std::string& word : words_) pointers_.push_back(word.data());
    pointers_.push_back(nullptr);
  }
  int count() const { return static_cast<int>(words_.size()); }
  char** pointers() { return pointers_.data(); }

 private:
  std::vector<std::string> words_;
  std::vector<char*> pointers_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  lockstep::FuzzInput input(data, size);
  const bool daemon = input.Flag();
  std::vector<std::string> first = {"program"};
  if (input.Flag()) {
    std::ofstream(kFile, std::ios::binary) << input.Text(4096);
    first.emplace_back(std::string("--config=") + kFile);
  }
  Words environment({}, input.Text(1024));
  Words arguments(std::move(first), input.Rest());
  int code = 0;
  const bool parsed = daemon ? lockstep::daemon::ParseOptions(arguments.count(), arguments.pointers(),
                                                              environment.pointers(), &code)
                                   .has_value()
                             : lockstep::aggregator::ParseAggregatorOptions(
                                   arguments.count(), arguments.pointers(), environment.pointers(), &code)
                                   .has_value();
  if (!parsed && code != 0 && code != 2) std::abort();
  return 0;
}
