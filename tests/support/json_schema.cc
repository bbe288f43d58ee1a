#include "tests/support/json_schema.h"

#include <simdjson.h>

#include <algorithm>
#include <set>

namespace lockstep::tests {
namespace {

using simdjson::dom::element;
using simdjson::dom::element_type;

bool IsInteger(const element& v) {
  if (v.type() == element_type::INT64 || v.type() == element_type::UINT64) return true;
  double d = 0;
  return v.get(d) == simdjson::SUCCESS && d == static_cast<double>(static_cast<int64_t>(d));
}

bool HasType(const element& v, std::string_view type) {
  switch (v.type()) {
    case element_type::OBJECT:
      return type == "object";
    case element_type::ARRAY:
      return type == "array";
    case element_type::STRING:
      return type == "string";
    case element_type::BOOL:
      return type == "boolean";
    case element_type::NULL_VALUE:
      return type == "null";
    default:
      return type == "number" || (type == "integer" && IsInteger(v));
  }
}

class Checker {
 public:
  explicit Checker(element schema) : root_(schema) {}

  void Check(element schema, element value, const std::string& path) {
    element target;
    std::string_view reference;
    if (schema["$ref"].get(reference) == simdjson::SUCCESS) {
      if (root_.at_pointer(std::string(reference.substr(1))).get(target) != simdjson::SUCCESS)
        return Fail(path, "unresolved reference " + std::string(reference));
      return Check(target, value, path);
    }
    for (const auto& rule : schema.get_object())
      CheckRule(std::string(rule.key), rule.value, schema, value, path);
  }

  std::vector<std::string> errors;

 private:
  void Fail(const std::string& path, const std::string& what) {
    errors.push_back((path.empty() ? "document" : path) + ": " + what);
  }

  void CheckRule(const std::string& rule, element parameter, element schema, element value,
                 const std::string& path) {
    static const std::set<std::string> kWords = {"$schema",     "$id",   "title",
                                                 "description", "$defs", "additionalProperties"};
    if (rule == "type")
      CheckType(parameter, value, path);
    else if (rule == "enum")
      CheckEnum(parameter, value, path);
    else if (rule == "const")
      CheckConst(parameter, value, path);
    else if (rule == "properties")
      CheckProperties(parameter, schema, value, path);
    else if (rule == "required")
      CheckRequired(parameter, value, path);
    else if (rule == "items")
      CheckItems(parameter, value, path);
    else if (rule == "minItems" || rule == "maxItems")
      CheckLength(rule, parameter, value, path);
    else if (rule == "minimum" || rule == "maximum")
      CheckBound(rule, parameter, value, path);
    else if (!kWords.contains(rule))
      Fail(path, "the schema uses '" + rule + "', which this checker does not know");
  }

  void CheckType(element types, element value, const std::string& path) {
    bool ok = false;
    if (types.is_array()) {
      for (element t : types.get_array()) ok |= HasType(value, std::string_view(t));
    } else {
      ok = HasType(value, std::string_view(types));
    }
    if (!ok) Fail(path, "has a wrong type: " + simdjson::minify(value).substr(0, 60));
  }

  void CheckEnum(element allowed, element value, const std::string& path) {
    bool ok = false;
    for (element a : allowed.get_array()) ok |= simdjson::minify(a) == simdjson::minify(value);
    if (!ok) Fail(path, "is none of the allowed values: " + simdjson::minify(value));
  }

  void CheckConst(element expected, element value, const std::string& path) {
    if (simdjson::minify(expected) != simdjson::minify(value))
      Fail(path, "must be " + simdjson::minify(expected));
  }

  void CheckProperties(element properties, element schema, element value, const std::string& path) {
    if (!value.is_object()) return;
    bool others = true;
    if (schema["additionalProperties"].get(others) != simdjson::SUCCESS) others = true;
    std::set<std::string> seen;
    for (const auto& member : value.get_object()) {
      const std::string name(member.key);
      if (!seen.insert(name).second) Fail(path, "'" + name + "' stands there twice");
      element rule;
      if (properties[name].get(rule) == simdjson::SUCCESS)
        Check(rule, member.value, path + "/" + name);
      else if (!others)
        Fail(path, "'" + name + "' is not in the schema");
    }
  }

  void CheckRequired(element names, element value, const std::string& path) {
    if (!value.is_object()) return;
    for (element name : names.get_array()) {
      element member;
      if (value[std::string_view(name)].get(member) != simdjson::SUCCESS)
        Fail(path, "lacks '" + std::string(std::string_view(name)) + "'");
    }
  }

  void CheckItems(element rule, element value, const std::string& path) {
    if (!value.is_array()) return;
    size_t i = 0;
    for (element item : value.get_array()) Check(rule, item, path + "/" + std::to_string(i++));
  }

  void CheckLength(const std::string& rule, element limit, element value, const std::string& path) {
    if (!value.is_array()) return;
    const auto size = value.get_array().size();
    const uint64_t bound = limit;
    if (rule == "minItems" ? size < bound : size > bound)
      Fail(path, "has " + std::to_string(size) + " items against " + rule);
  }

  void CheckBound(const std::string& rule, element limit, element value, const std::string& path) {
    double bound = 0, number = 0;
    if (limit.get(bound) != simdjson::SUCCESS || value.get(number) != simdjson::SUCCESS) return;
    if (rule == "minimum" ? number < bound : number > bound)
      Fail(path, simdjson::minify(value) + " against " + rule);
  }

  element root_;
};

}  // namespace

std::vector<std::string> SchemaErrors(std::string_view schema_text, std::string_view document_text) {
  simdjson::dom::parser schema_parser, document_parser;
  element schema, document;
  if (schema_parser.parse(schema_text.data(), schema_text.size()).get(schema) != simdjson::SUCCESS)
    return {"the schema is no JSON"};
  if (document_parser.parse(document_text.data(), document_text.size()).get(document) != simdjson::SUCCESS)
    return {"the document is no JSON"};
  Checker checker(schema);
  checker.Check(schema, document, "");
  return std::move(checker.errors);
}

}  // namespace lockstep::tests
