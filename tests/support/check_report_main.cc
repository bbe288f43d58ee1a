// check_report SCHEMA REPORT...: exit 0 when every report obeys the schema; else 1, with a line for each
// violation.
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

#include "tests/support/json_schema.h"

namespace {

bool Read(const char* path, std::string& text) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  text = out.str();
  if (!in) std::cerr << path << ": cannot be read\n";
  return static_cast<bool>(in);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: check_report SCHEMA REPORT...\n";
    return 2;
  }
  std::string schema;
  if (!Read(argv[1], schema)) return 2;
  int status = 0;
  for (int i = 2; i < argc; ++i) {
    std::string document;
    if (!Read(argv[i], document)) return 2;
    for (const std::string& error : lockstep::tests::SchemaErrors(schema, document)) {
      std::cout << argv[i] << error << "\n";
      status = 1;
    }
  }
  return status;
}
