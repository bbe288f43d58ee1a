// Converts a view into one JSON document.
#ifndef LOCKSTEP_VIEWS_CATALOG_JSON_TABLE_H_
#define LOCKSTEP_VIEWS_CATALOG_JSON_TABLE_H_

#include <string>
#include <string_view>

#include "views/catalog/views.h"

namespace lockstep::views {

// The document is {"view", "columns": [{"name", "unit", "meaning"}], "rows": [{column: value}], "notes":
// [text]}. Numbers are not scaled and have the unit of their column. null: the value is unknown.
std::string JsonTable(std::string_view name, const MadeView& view);

}  // namespace lockstep::views

#endif  // LOCKSTEP_VIEWS_CATALOG_JSON_TABLE_H_
