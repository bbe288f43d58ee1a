// Checks a JSON document against a schema: the part of JSON Schema that docs/formats/report.schema.json uses
// (type, enum, const, properties, required, additionalProperties: false, items, minItems, maxItems, minimum,
// maximum, $ref to #/$defs).
#ifndef LOCKSTEP_TESTS_SUPPORT_JSON_SCHEMA_H_
#define LOCKSTEP_TESTS_SUPPORT_JSON_SCHEMA_H_

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::tests {

// What is wrong, each with the path of the value; empty when the document obeys. A keyword that the checker
// does not know is reported too, so that no rule of the schema goes unchecked.
std::vector<std::string> SchemaErrors(std::string_view schema, std::string_view document);

}  // namespace lockstep::tests

#endif  // LOCKSTEP_TESTS_SUPPORT_JSON_SCHEMA_H_
