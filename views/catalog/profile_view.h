// lockstep profile: what Python's cProfile counted, ranks side by side.
#ifndef LOCKSTEP_AGGREGATOR_TABLES_PROFILE_VIEW_H_
#define LOCKSTEP_AGGREGATOR_TABLES_PROFILE_VIEW_H_

#include <span>
#include <string_view>

#include "aggregator/store/python_profile.h"
#include "views/catalog/views.h"
#include "views/host/python_functions.h"

namespace lockstep::tables {

// On a terminal where -c says nothing.
inline constexpr std::string_view kProfileColumns =
    "rank,function,file,line,calls,self_ns,self_min_ns,self_max_ns,slowest_rank,total_ns,ranks";
// pstats' own names.
std::span<const Alias> ProfileAliases();

MadeView MakeProfile(std::span<const store::PythonProfile> profiles, views::PythonRows rows);

}  // namespace lockstep::tables

#endif  // LOCKSTEP_AGGREGATOR_TABLES_PROFILE_VIEW_H_
