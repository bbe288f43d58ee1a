#include "views/host/operator_call.h"

#include <simdjson.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace lockstep::views {
namespace {

using simdjson::dom::element;

// Returns the bytes of an element, by the type's name in C++ or in torch.dtype. 0: it is not a tensor's type.
int BytesOfType(std::string_view type) {
  constexpr std::pair<std::string_view, int> kTypes[] = {{"float", 4},
                                                         {"double", 8},
                                                         {"c10::Half", 2},
                                                         {"Half", 2},
                                                         {"c10::BFloat16", 2},
                                                         {"BFloat16", 2},
                                                         {"int", 4},
                                                         {"long", 8},
                                                         {"long int", 8},
                                                         {"short", 2},
                                                         {"short int", 2},
                                                         {"bool", 1},
                                                         {"unsigned char", 1},
                                                         {"signed char", 1},
                                                         {"char", 1},
                                                         {"float32", 4},
                                                         {"float16", 2},
                                                         {"bfloat16", 2},
                                                         {"c10::complex<float>", 8},
                                                         {"c10::complex<double>", 16},
                                                         {"c10::Float8_e4m3fn", 1},
                                                         {"c10::Float8_e5m2", 1}};
  for (const auto& [name, bytes] : kTypes) {
    if (name == type) return bytes;
  }
  return 0;
}

// Words of the type list that are not types of tensors.
bool IsNoTensor(std::string_view type) {
  return type.empty() || type == "Scalar" || type == "Int" || type == "Bool" || type == "Double" ||
         type == "Device" || type.ends_with("List") || type.starts_with("GenericList");
}

std::optional<Shape> ReadShape(element value) {
  simdjson::dom::array array;
  if (value.get(array) != simdjson::SUCCESS) return std::nullopt;
  Shape shape;
  for (const element size : array) {
    int64_t number = 0;
    if (size.get(number) != simdjson::SUCCESS || number < 0) return std::nullopt;
    shape.push_back(number);
  }
  return shape;
}

// Reads one shape, or a list of shapes.
bool ReadShapes(element value, Argument& argument) {
  if (auto shape = ReadShape(value)) {
    argument.shape = *std::move(shape);
    return true;
  }
  simdjson::dom::array array;
  if (value.get(array) != simdjson::SUCCESS) return false;
  for (const element of : array) {
    auto shape = ReadShape(of);
    if (!shape) return false;
    argument.list.push_back(*std::move(shape));
  }
  return true;
}

// Calls `take` with the place and the value of each element of a JSON list.
template <typename Take>
bool EachOf(std::string_view list, const Take& take) {
  simdjson::dom::parser parser;
  simdjson::dom::array array;
  if (list.empty() || parser.parse(list.data(), list.size()).get(array) != simdjson::SUCCESS) return false;
  size_t place = 0;
  for (const element value : array) {
    if (!take(place++, value)) return false;
  }
  return true;
}

}  // namespace

const Argument* OperatorCall::Tensor(size_t place) const {
  return place < arguments.size() && arguments[place].is_tensor ? &arguments[place] : nullptr;
}

std::vector<Argument> ArgumentsOf(const capture::FrameDetail& detail, const capture::StringTable& strings) {
  std::vector<Argument> out;
  const bool whole = EachOf(strings.Text(detail.shapes),
                            [&](size_t, element value) { return ReadShapes(value, out.emplace_back()); });
  if (!whole) return {};
  const std::string_view types = strings.Text(detail.types);
  if (types.empty()) {
    // Without types, only a tensor can have a shape with dimensions.
    for (Argument& a : out) a.is_tensor = !a.shape.empty();
  }
  EachOf(types, [&](size_t place, element value) {
    std::string_view type;
    if (place >= out.size() || value.get(type) != simdjson::SUCCESS) return false;
    Argument& a = out[place];
    // Points to the word in `strings`, because the parser's own copy is temporary.
    const size_t at = types.find(type);
    if (IsNoTensor(type) || at == std::string_view::npos) return true;
    a.type = types.substr(at, type.size());
    a.element_bytes = BytesOfType(type);
    a.is_tensor = a.list.empty() && (a.element_bytes != 0 || !a.shape.empty());
    return true;
  });
  EachOf(strings.Text(detail.values), [&](size_t place, element value) {
    std::string_view text;
    if (place < out.size() && value.get(text) == simdjson::SUCCESS) out[place].value = std::string(text);
    return true;
  });
  return out;
}

std::string Describe(const std::vector<Argument>& arguments) {
  std::vector<std::string> parts;
  for (const Argument& a : arguments) {
    if (a.is_tensor) {
      parts.push_back(absl::StrCat(std::string(a.type), "[", absl::StrJoin(a.shape, ","), "]"));
    } else if (!a.list.empty()) {
      parts.push_back(absl::StrCat("list of ", a.list.size()));
    } else if (!a.value.empty()) {
      parts.push_back(a.value);
    }
  }
  return absl::StrJoin(parts, ";");
}

}  // namespace lockstep::views
