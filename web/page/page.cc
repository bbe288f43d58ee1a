#include "web/page/page.h"

#include "web/page/page_data.h"

namespace lockstep::web {
namespace {

// The place for the data in web/src/page.html.
constexpr std::string_view kPlace = "<!--LOCKSTEP_DATA-->";

}  // namespace

absl::Status WritePage(const PageInput& input, ByteSink& sink) {
  const std::string_view page = PageTemplate();
  const size_t place = page.find(kPlace);
  if (place == std::string_view::npos)
    return absl::InternalError("web/src/page.html has lost its place for data");
  absl::StatusOr<std::string> data = PageData(input);
  if (!data.ok()) return data.status();
  for (const std::string_view piece :
       {page.substr(0, place), std::string_view(*data), page.substr(place + kPlace.size())}) {
    if (absl::Status s = sink.Append(piece); !s.ok()) return s;
  }
  return absl::OkStatus();
}

}  // namespace lockstep::web
