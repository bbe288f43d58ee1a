// KinetoCollectives converts the arguments of collective kernels into collectives and communicator groups.
#ifndef LOCKSTEP_FORMATS_KINETO_KINETO_COLLECTIVES_H_
#define LOCKSTEP_FORMATS_KINETO_KINETO_COLLECTIVES_H_

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "formats/kineto/kineto_file.h"
#include "formats/kineto/kineto_row.h"

namespace lockstep::formats {

// One thread may use it. `file` receives the groups and outlives this object.
class KinetoCollectives {
 public:
  explicit KinetoCollectives(KinetoFile& file) : file_(file) {}

  // Returns the row's collective. Its `activity` is not set.
  capture::Collective Read(const RowArgs& args);

 private:
  uint32_t GroupOf(const RowArgs& args);

  KinetoFile& file_;
  absl::flat_hash_map<std::string, uint32_t> groups_;
};

}  // namespace lockstep::formats

#endif  // LOCKSTEP_FORMATS_KINETO_KINETO_COLLECTIVES_H_
