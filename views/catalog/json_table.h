// A view as one JSON document.
#ifndef LOCKSTEP_AGGREGATOR_TABLES_JSON_TABLE_H_
#define LOCKSTEP_AGGREGATOR_TABLES_JSON_TABLE_H_

#include <string>
#include <string_view>

#include "views/catalog/views.h"

namespace lockstep::tables {

// {"view", "columns": [{"name", "unit", "meaning"}], "rows": [{column: value}], "notes": [text]}. Numbers are
// raw, in the unit of their column; null is unknown.
std::string JsonTable(std::string_view name, const MadeView& view);

}  // namespace lockstep::tables

#endif  // LOCKSTEP_AGGREGATOR_TABLES_JSON_TABLE_H_
