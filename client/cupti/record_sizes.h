// How long the loaded CUPTI's records are: versions 11 to 13 differ.
#ifndef LOCKSTEP_CLIENT_RECORD_SIZES_H_
#define LOCKSTEP_CLIENT_RECORD_SIZES_H_

#include <cstddef>

#include "client/cupti/cupti_api.h"

namespace lockstep::client {

// What the loaded CUPTI's records hold: bytes per kind, 0 = unknown. Fields beyond are not read.
struct RecordSizes {
  size_t kernel = 0;
  size_t memcpy = 0;
  size_t memcpy_peer = 0;
  size_t memset = 0;
  size_t synchronization = 0;
  size_t cuda_event = 0;
  size_t device = 0;
  size_t context = 0;
  size_t stream = 0;
  size_t memory = 0;

  static RecordSizes Ask(const CuptiApi& api);
};

}  // namespace lockstep::client

#endif  // LOCKSTEP_CLIENT_RECORD_SIZES_H_
