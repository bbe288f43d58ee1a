// The record lengths of the loaded CUPTI, which differ between versions 11 and 13.
#ifndef LOCKSTEP_CLIENT_CUPTI_RECORD_SIZES_H_
#define LOCKSTEP_CLIENT_CUPTI_RECORD_SIZES_H_

#include <cstddef>

#include "client/cupti/cupti_api.h"

namespace lockstep::client {

// Record length in bytes by kind; 0 = unknown. The converter does not read fields beyond it.
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

#endif  // LOCKSTEP_CLIENT_CUPTI_RECORD_SIZES_H_
