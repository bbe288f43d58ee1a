// Compares the declarations of NCCL's profiler plugin ABI, versions 1 to 6, with NCCL's own headers, if
// LOCKSTEP_NCCL_PROFILER_INCLUDE names them. No toolkit has them: they are in NCCL's repository.
#include <err.h>  // NCCL's, which profiler.h needs
#include <gtest/gtest.h>
#include <profiler.h>

#include <cstddef>

#include "tests/abi/same_as_header.h"
#include "wire/foreign/nccl_profiler.h"
#include "wire/foreign/nccl_profiler_old.h"

namespace {

namespace ours = lockstep::foreign::nccl;

// The fields that all versions have. `in` is the member of our type that holds the union: `detail.`, or
// empty.
#define EXPECT_SAME_COMMON(our_type, in, their_type)                                   \
  EXPECT_SAME_FIELD(our_type, type, their_type, type);                                 \
  EXPECT_SAME_FIELD(our_type, parent, their_type, parentObj);                          \
  EXPECT_SAME_FIELD(our_type, rank, their_type, rank);                                 \
  EXPECT_SAME_FIELD(our_type, in coll.sequence, their_type, coll.seqNumber);           \
  EXPECT_SAME_FIELD(our_type, in coll.function, their_type, coll.func);                \
  EXPECT_SAME_FIELD(our_type, in coll.send_buffer, their_type, coll.sendBuff);         \
  EXPECT_SAME_FIELD(our_type, in coll.recv_buffer, their_type, coll.recvBuff);         \
  EXPECT_SAME_FIELD(our_type, in coll.count, their_type, coll.count);                  \
  EXPECT_SAME_FIELD(our_type, in coll.root, their_type, coll.root);                    \
  EXPECT_SAME_FIELD(our_type, in coll.datatype, their_type, coll.datatype);            \
  EXPECT_SAME_FIELD(our_type, in coll.warps, their_type, coll.nWarps);                 \
  EXPECT_SAME_FIELD(our_type, in coll.algorithm, their_type, coll.algo);               \
  EXPECT_SAME_FIELD(our_type, in coll.protocol, their_type, coll.proto);               \
  EXPECT_SAME_FIELD(our_type, in p2p.function, their_type, p2p.func);                  \
  EXPECT_SAME_FIELD(our_type, in p2p.buffer, their_type, p2p.buff);                    \
  EXPECT_SAME_FIELD(our_type, in p2p.datatype, their_type, p2p.datatype);              \
  EXPECT_SAME_FIELD(our_type, in p2p.count, their_type, p2p.count);                    \
  EXPECT_SAME_FIELD(our_type, in p2p.peer, their_type, p2p.peer);                      \
  EXPECT_SAME_FIELD(our_type, in proxy_op.pid, their_type, proxyOp.pid);               \
  EXPECT_SAME_FIELD(our_type, in proxy_op.channel, their_type, proxyOp.channelId);     \
  EXPECT_SAME_FIELD(our_type, in proxy_op.peer, their_type, proxyOp.peer);             \
  EXPECT_SAME_FIELD(our_type, in proxy_op.steps, their_type, proxyOp.nSteps);          \
  EXPECT_SAME_FIELD(our_type, in proxy_op.chunk_bytes, their_type, proxyOp.chunkSize); \
  EXPECT_SAME_FIELD(our_type, in proxy_op.is_send, their_type, proxyOp.isSend)

#define EXPECT_SAME_OLD(our_type, their_type)                        \
  EXPECT_SAME_SIZE(our_type, their_type);                            \
  EXPECT_SAME_COMMON(our_type, , their_type);                        \
  EXPECT_SAME_FIELD(our_type, coll.name, their_type, coll.name);     \
  EXPECT_SAME_FIELD(our_type, coll.comm, their_type, coll.commHash); \
  EXPECT_SAME_FIELD(our_type, p2p.name, their_type, p2p.name);       \
  EXPECT_SAME_FIELD(our_type, p2p.comm, their_type, p2p.commHash);   \
  EXPECT_SAME_FIELD(our_type, proxy_step, their_type, proxyStep.step)

TEST(NcclProfilerHeaders, OldDescriptorsAreEqual) {
  EXPECT_SAME_OLD(ours::EventDescriptorV1, ncclProfilerEventDescr_v1_t);
  EXPECT_SAME_FIELD(ours::EventDescriptorV1, coll.reduction, ncclProfilerEventDescr_v1_t, coll.op);
  EXPECT_SAME_FIELD(ours::EventDescriptorV1, coll.traffic_bytes, ncclProfilerEventDescr_v1_t,
                    coll.trafficBytes);
  EXPECT_SAME_FIELD(ours::EventDescriptorV1, coll.channels, ncclProfilerEventDescr_v1_t, coll.nMaxChannels);
  EXPECT_SAME_FIELD(ours::EventDescriptorV1, coll.is_collnet, ncclProfilerEventDescr_v1_t, coll.isCollnet);
  EXPECT_SAME_FIELD(ours::EventDescriptorV1, coll.is_nvls, ncclProfilerEventDescr_v1_t, coll.isNvls);
  EXPECT_SAME_OLD(ours::EventDescriptorV2, ncclProfilerEventDescr_v2_t);
  EXPECT_SAME_FIELD(ours::EventDescriptorV2, coll.traffic_bytes, ncclProfilerEventDescr_v2_t,
                    coll.trafficBytes);
  EXPECT_SAME_FIELD(ours::EventDescriptorV2, coll.channels, ncclProfilerEventDescr_v2_t, coll.nMaxChannels);
  EXPECT_SAME_OLD(ours::EventDescriptorV3, ncclProfilerEventDescr_v3_t);
  EXPECT_SAME_FIELD(ours::EventDescriptorV3, coll.channels, ncclProfilerEventDescr_v3_t, coll.nMaxChannels);
  EXPECT_SAME_FIELD(ours::EventDescriptorV3, kernel_channel, ncclProfilerEventDescr_v3_t, kernelCh.channelId);
  EXPECT_SAME_FIELD(ours::EventDescriptorV3, net_plugin.id, ncclProfilerEventDescr_v3_t, netPlugin.id);
  EXPECT_SAME_FIELD(ours::EventDescriptorV3, net_plugin.data, ncclProfilerEventDescr_v3_t, netPlugin.data);
}

#define EXPECT_SAME_NEW(our_type, their_type)                                                 \
  EXPECT_SAME_COMMON(our_type, detail., their_type);                                          \
  EXPECT_SAME_FIELD(our_type, detail.coll.channels, their_type, coll.nChannels);              \
  EXPECT_SAME_FIELD(our_type, detail.p2p.channels, their_type, p2p.nChannels);                \
  EXPECT_SAME_FIELD(our_type, detail.proxy_step.step, their_type, proxyStep.step);            \
  EXPECT_SAME_FIELD(our_type, detail.kernel_channel.channel, their_type, kernelCh.channelId); \
  EXPECT_SAME_FIELD(our_type, detail.kernel_channel.gpu_timer_ns, their_type, kernelCh.pTimer)

#define EXPECT_SAME_API(their_type)                                                                          \
  EXPECT_SAME_FIELD(ours::EventDescriptor, detail.coll.parent_group, their_type, coll.parentGroup);          \
  EXPECT_SAME_FIELD(ours::EventDescriptor, detail.p2p.parent_group, their_type, p2p.parentGroup);            \
  EXPECT_SAME_FIELD(ours::EventDescriptor, detail.group_api.graph_captured, their_type,                      \
                    groupApi.graphCaptured);                                                                 \
  EXPECT_SAME_FIELD(ours::EventDescriptor, detail.group_api.group_depth, their_type, groupApi.groupDepth);   \
  EXPECT_SAME_FIELD(ours::EventDescriptor, detail.coll_api.function, their_type, collApi.func);              \
  EXPECT_SAME_FIELD(ours::EventDescriptor, detail.coll_api.count, their_type, collApi.count);                \
  EXPECT_SAME_FIELD(ours::EventDescriptor, detail.coll_api.root, their_type, collApi.root);                  \
  EXPECT_SAME_FIELD(ours::EventDescriptor, detail.coll_api.stream, their_type, collApi.stream);              \
  EXPECT_SAME_FIELD(ours::EventDescriptor, detail.coll_api.graph_captured, their_type,                       \
                    collApi.graphCaptured);                                                                  \
  EXPECT_SAME_FIELD(ours::EventDescriptor, detail.p2p_api.stream, their_type, p2pApi.stream);                \
  EXPECT_SAME_FIELD(ours::EventDescriptor, detail.p2p_api.graph_captured, their_type, p2pApi.graphCaptured); \
  EXPECT_SAME_FIELD(ours::EventDescriptor, detail.kernel_launch.stream, their_type, kernelLaunch.stream)

TEST(NcclProfilerHeaders, NewDescriptorsAreEqual) {
  EXPECT_SAME_NEW(ours::EventDescriptorV4, ncclProfilerEventDescr_v4_t);
  EXPECT_SAME_NEW(ours::EventDescriptor, ncclProfilerEventDescr_v5_t);
  EXPECT_SAME_API(ncclProfilerEventDescr_v5_t);
  EXPECT_SAME_SIZE(ours::EventDescriptor, ncclProfilerEventDescr_v5_t);
  EXPECT_SAME_NEW(ours::EventDescriptor, ncclProfilerEventDescr_v6_t);
  EXPECT_SAME_API(ncclProfilerEventDescr_v6_t);
#define EXPECT_SAME_CE(our_field, their_field)                                                    \
  EXPECT_SAME_FIELD(ours::EventDescriptor, detail.ce_coll.our_field, ncclProfilerEventDescr_v6_t, \
                    ceColl.their_field)
  EXPECT_SAME_CE(sequence, seqNumber);
  EXPECT_SAME_CE(function, func);
  EXPECT_SAME_CE(send_buffer, sendBuff);
  EXPECT_SAME_CE(recv_buffer, recvBuff);
  EXPECT_SAME_CE(count, count);
  EXPECT_SAME_CE(root, root);
  EXPECT_SAME_CE(datatype, datatype);
  EXPECT_SAME_CE(synchronization, syncStrategy);
  EXPECT_SAME_CE(synchronizes_in_batch, intraBatchSync);
  EXPECT_SAME_CE(batch_size, batchSize);
  EXPECT_SAME_CE(batches, numBatches);
  EXPECT_SAME_CE(ce_sequence, ceSeqNum);
  EXPECT_SAME_CE(stream, stream);
}

template <typename Ours, typename Theirs>
void ExpectSameTable() {
  EXPECT_SAME_SIZE(Ours, Theirs);
  EXPECT_SAME_FIELD(Ours, init, Theirs, init);
  EXPECT_SAME_FIELD(Ours, start_event, Theirs, startEvent);
  EXPECT_SAME_FIELD(Ours, stop_event, Theirs, stopEvent);
  EXPECT_SAME_FIELD(Ours, record_event_state, Theirs, recordEventState);
  EXPECT_SAME_FIELD(Ours, finalize, Theirs, finalize);
}

TEST(NcclProfilerHeaders, TablesAndNumbersAreEqual) {
  ExpectSameTable<ours::ProfilerV1, ncclProfiler_v1_t>();
  ExpectSameTable<ours::ProfilerV2, ncclProfiler_v2_t>();
  ExpectSameTable<ours::ProfilerV3, ncclProfiler_v3_t>();
  ExpectSameTable<ours::ProfilerV4, ncclProfiler_v4_t>();
  ExpectSameTable<ours::Profiler, ncclProfiler_v5_t>();
  ExpectSameTable<ours::Profiler, ncclProfiler_v6_t>();
  EXPECT_SAME_SIZE(ours::EventStateArgsOld, ncclProfilerEventStateArgs_v1_t);
  EXPECT_SAME_SIZE(ours::EventStateArgsOld, ncclProfilerEventStateArgs_v2_t);
  EXPECT_SAME_SIZE(ours::EventStateArgs, ncclProfilerEventStateArgs_v5_t);
  EXPECT_SAME_VALUE(ours::kEventGroup, ncclProfileGroup);
  EXPECT_SAME_VALUE(ours::kEventColl, ncclProfileColl);
  EXPECT_SAME_VALUE(ours::kEventP2p, ncclProfileP2p);
  EXPECT_SAME_VALUE(ours::kEventProxyOp, ncclProfileProxyOp);
  EXPECT_SAME_VALUE(ours::kEventProxyStep, ncclProfileProxyStep);
  EXPECT_SAME_VALUE(ours::kEventProxyCtrl, ncclProfileProxyCtrl);
  EXPECT_SAME_VALUE(ours::kEventKernelChannel, ncclProfileKernelCh);
  EXPECT_SAME_VALUE(ours::kEventNetPlugin, ncclProfileNetPlugin);
  EXPECT_SAME_VALUE(ours::kEventGroupApi, ncclProfileGroupApi);
  EXPECT_SAME_VALUE(ours::kEventCollApi, ncclProfileCollApi);
  EXPECT_SAME_VALUE(ours::kEventP2pApi, ncclProfileP2pApi);
  EXPECT_SAME_VALUE(ours::kEventKernelLaunch, ncclProfileKernelLaunch);
  EXPECT_SAME_VALUE(ours::kEventCeColl, ncclProfileCeColl);
  EXPECT_SAME_VALUE(ours::kEventCeSync, ncclProfileCeSync);
  EXPECT_SAME_VALUE(ours::kEventCeBatch, ncclProfileCeBatch);
  EXPECT_SAME_VALUE(ours::EventState::kProxyStepSendGpuWait, ncclProfilerProxyStepSendGPUWait);
  EXPECT_SAME_VALUE(ours::EventState::kProxyStepSendWait, ncclProfilerProxyStepSendWait);
  EXPECT_SAME_VALUE(ours::EventState::kProxyStepRecvWait, ncclProfilerProxyStepRecvWait);
  EXPECT_SAME_VALUE(ours::EventState::kProxyStepRecvFlushWait, ncclProfilerProxyStepRecvFlushWait);
  EXPECT_SAME_VALUE(ours::EventState::kProxyStepRecvGpuWait, ncclProfilerProxyStepRecvGPUWait);
  EXPECT_SAME_VALUE(ours::EventState::kProxyOpInProgress, ncclProfilerProxyOpInProgress_v4);
  EXPECT_SAME_VALUE(ours::EventState::kProxyStepSendPeerWait, ncclProfilerProxyStepSendPeerWait_v4);
  EXPECT_SAME_VALUE(ours::EventState::kNetPluginUpdate, ncclProfilerNetPluginUpdate);
  EXPECT_SAME_VALUE(ours::EventState::kKernelChannelStop, ncclProfilerKernelChStop);
  EXPECT_SAME_VALUE(ours::EventState::kGroupStartApiStop, ncclProfilerGroupStartApiStop);
  EXPECT_SAME_VALUE(ours::EventState::kGroupEndApiStart, ncclProfilerGroupEndApiStart);
  EXPECT_SAME_VALUE(ours::kProxyOpSendTransmitted, ncclProfilerProxyOpSendTransmitted);
  EXPECT_SAME_VALUE(ours::kProxyOpRecvReceived, ncclProfilerProxyOpRecvReceived);
}

}  // namespace
