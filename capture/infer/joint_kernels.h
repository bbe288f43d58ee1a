// Finds operations of all ranks among the kernels of smaller communicators.
//
// A job may run an operation of all ranks under the name and on the stream of smaller communicators. An
// example is one all-reduce of the gradient's norm per step, among hundreds of a tensor group. Such
// operations end together on the ranks of all these communicators. Their other operations end at unrelated
// times. For communicator_inference.h. Pure, any thread.
#ifndef LOCKSTEP_CAPTURE_INFER_JOINT_KERNELS_H_
#define LOCKSTEP_CAPTURE_INFER_JOINT_KERNELS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "capture/infer/common_clock.h"

namespace lockstep::capture {

// Members leave an operation within this of each other, on the common clock.
inline constexpr double kJointNs = 8e3;

// `sequences`: the kernels of one rank of each communicator, ordered by end, on one clock. Returns the
// indices of the joint kernels in the first sequence; empty if there are none.
std::vector<uint32_t> FindJointKernels(std::span<const std::span<const KernelInterval>> sequences);

// Index of the interval that ends within kJointNs of `end_ns`, the nearest one; UINT32_MAX without one.
uint32_t EndsAt(std::span<const KernelInterval> sequence, double end_ns);

}  // namespace lockstep::capture

#endif  // LOCKSTEP_CAPTURE_INFER_JOINT_KERNELS_H_
