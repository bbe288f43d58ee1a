// Compares the declarations of NCCL's profiler plugin ABI, versions 1 to 6, with NCCL's own headers, if
// LOCKSTEP_NCCL_PROFILER_INCLUDE names them. No toolkit has them: they are in NCCL's repository.
#include <err.h>  // NCCL's, which profiler.h needs
#include <gtest/gtest.h>
#include <profiler.h>

#include <cstddef>

#include "wire/foreign/nccl_profiler.h"
#include "wire/foreign/nccl_profiler_old.h"

namespace {

namespace ours = lockstep::foreign::nccl;

#define EXPECT_SAME_FIELD(our_type, our_field, their_type, their_field)                             \
  do {                                                                                              \
    EXPECT_EQ(offsetof(our_type, our_field), offsetof(their_type, their_field)) << #our_field;      \
    EXPECT_EQ(sizeof(our_type::our_field), sizeof(their_type::their_field)) << #our_field " width"; \
  } while (false)

#define EXPECT_SAME_HEAD(our_type, their_type)                                      \
  EXPECT_SAME_FIELD(our_type, type, their_type, type);                              \
  EXPECT_SAME_FIELD(our_type, parent, their_type, parentObj);                       \
  EXPECT_SAME_FIELD(our_type, rank, their_type, rank);                              \
  EXPECT_SAME_FIELD(our_type, proxy_op.pid, their_type, proxyOp.pid);               \
  EXPECT_SAME_FIELD(our_type, proxy_op.channel, their_type, proxyOp.channelId);     \
  EXPECT_SAME_FIELD(our_type, proxy_op.peer, their_type, proxyOp.peer);             \
  EXPECT_SAME_FIELD(our_type, proxy_op.steps, their_type, proxyOp.nSteps);          \
  EXPECT_SAME_FIELD(our_type, proxy_op.chunk_bytes, their_type, proxyOp.chunkSize); \
  EXPECT_SAME_FIELD(our_type, proxy_op.is_send, their_type, proxyOp.isSend)

// Fields that all versions have.
#define EXPECT_SAME_COLLECTIVE(our_type, their_type)                        \
  EXPECT_SAME_FIELD(our_type, coll.sequence, their_type, coll.seqNumber);   \
  EXPECT_SAME_FIELD(our_type, coll.function, their_type, coll.func);        \
  EXPECT_SAME_FIELD(our_type, coll.send_buffer, their_type, coll.sendBuff); \
  EXPECT_SAME_FIELD(our_type, coll.recv_buffer, their_type, coll.recvBuff); \
  EXPECT_SAME_FIELD(our_type, coll.count, their_type, coll.count);          \
  EXPECT_SAME_FIELD(our_type, coll.root, their_type, coll.root);            \
  EXPECT_SAME_FIELD(our_type, coll.datatype, their_type, coll.datatype);    \
  EXPECT_SAME_FIELD(our_type, coll.warps, their_type, coll.nWarps);         \
  EXPECT_SAME_FIELD(our_type, coll.algorithm, their_type, coll.algo);       \
  EXPECT_SAME_FIELD(our_type, coll.protocol, their_type, coll.proto);       \
  EXPECT_SAME_FIELD(our_type, p2p.function, their_type, p2p.func);          \
  EXPECT_SAME_FIELD(our_type, p2p.buffer, their_type, p2p.buff);            \
  EXPECT_SAME_FIELD(our_type, p2p.datatype, their_type, p2p.datatype);      \
  EXPECT_SAME_FIELD(our_type, p2p.count, their_type, p2p.count);            \
  EXPECT_SAME_FIELD(our_type, p2p.peer, their_type, p2p.peer)

#define EXPECT_SAME_OLD(our_type, their_type)                        \
  EXPECT_EQ(sizeof(our_type), sizeof(their_type));                   \
  EXPECT_SAME_HEAD(our_type, their_type);                            \
  EXPECT_SAME_COLLECTIVE(our_type, their_type);                      \
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

#define EXPECT_SAME_DETAIL(our_type, their_type)                                              \
  EXPECT_SAME_FIELD(our_type, type, their_type, type);                                        \
  EXPECT_SAME_FIELD(our_type, parent, their_type, parentObj);                                 \
  EXPECT_SAME_FIELD(our_type, rank, their_type, rank);                                        \
  EXPECT_SAME_FIELD(our_type, detail.coll.sequence, their_type, coll.seqNumber);              \
  EXPECT_SAME_FIELD(our_type, detail.coll.function, their_type, coll.func);                   \
  EXPECT_SAME_FIELD(our_type, detail.coll.count, their_type, coll.count);                     \
  EXPECT_SAME_FIELD(our_type, detail.coll.root, their_type, coll.root);                       \
  EXPECT_SAME_FIELD(our_type, detail.coll.datatype, their_type, coll.datatype);               \
  EXPECT_SAME_FIELD(our_type, detail.coll.channels, their_type, coll.nChannels);              \
  EXPECT_SAME_FIELD(our_type, detail.coll.warps, their_type, coll.nWarps);                    \
  EXPECT_SAME_FIELD(our_type, detail.coll.algorithm, their_type, coll.algo);                  \
  EXPECT_SAME_FIELD(our_type, detail.coll.protocol, their_type, coll.proto);                  \
  EXPECT_SAME_FIELD(our_type, detail.p2p.function, their_type, p2p.func);                     \
  EXPECT_SAME_FIELD(our_type, detail.p2p.count, their_type, p2p.count);                       \
  EXPECT_SAME_FIELD(our_type, detail.p2p.peer, their_type, p2p.peer);                         \
  EXPECT_SAME_FIELD(our_type, detail.p2p.channels, their_type, p2p.nChannels);                \
  EXPECT_SAME_FIELD(our_type, detail.proxy_op.pid, their_type, proxyOp.pid);                  \
  EXPECT_SAME_FIELD(our_type, detail.proxy_op.channel, their_type, proxyOp.channelId);        \
  EXPECT_SAME_FIELD(our_type, detail.proxy_op.peer, their_type, proxyOp.peer);                \
  EXPECT_SAME_FIELD(our_type, detail.proxy_op.steps, their_type, proxyOp.nSteps);             \
  EXPECT_SAME_FIELD(our_type, detail.proxy_op.chunk_bytes, their_type, proxyOp.chunkSize);    \
  EXPECT_SAME_FIELD(our_type, detail.proxy_op.is_send, their_type, proxyOp.isSend);           \
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
  EXPECT_SAME_DETAIL(ours::EventDescriptorV4, ncclProfilerEventDescr_v4_t);
  EXPECT_SAME_DETAIL(ours::EventDescriptor, ncclProfilerEventDescr_v5_t);
  EXPECT_SAME_API(ncclProfilerEventDescr_v5_t);
  EXPECT_EQ(sizeof(ours::EventDescriptor), sizeof(ncclProfilerEventDescr_v5_t));
  EXPECT_SAME_DETAIL(ours::EventDescriptor, ncclProfilerEventDescr_v6_t);
  EXPECT_SAME_API(ncclProfilerEventDescr_v6_t);
}

template <typename Ours, typename Theirs>
void ExpectSameTable() {
  EXPECT_EQ(sizeof(Ours), sizeof(Theirs));
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
  EXPECT_EQ(sizeof(ours::EventStateArgsOld), sizeof(ncclProfilerEventStateArgs_v1_t));
  EXPECT_EQ(sizeof(ours::EventStateArgsOld), sizeof(ncclProfilerEventStateArgs_v2_t));
  EXPECT_EQ(sizeof(ours::EventStateArgs), sizeof(ncclProfilerEventStateArgs_v5_t));
#define EXPECT_SAME_NUMBER(our_name, their_name) \
  EXPECT_EQ(static_cast<int>(ours::our_name), static_cast<int>(their_name))
  EXPECT_SAME_NUMBER(kEventGroup, ncclProfileGroup);
  EXPECT_SAME_NUMBER(kEventColl, ncclProfileColl);
  EXPECT_SAME_NUMBER(kEventP2p, ncclProfileP2p);
  EXPECT_SAME_NUMBER(kEventProxyOp, ncclProfileProxyOp);
  EXPECT_SAME_NUMBER(kEventProxyStep, ncclProfileProxyStep);
  EXPECT_SAME_NUMBER(kEventProxyCtrl, ncclProfileProxyCtrl);
  EXPECT_SAME_NUMBER(kEventKernelChannel, ncclProfileKernelCh);
  EXPECT_SAME_NUMBER(kEventNetPlugin, ncclProfileNetPlugin);
  EXPECT_SAME_NUMBER(kEventGroupApi, ncclProfileGroupApi);
  EXPECT_SAME_NUMBER(kEventCollApi, ncclProfileCollApi);
  EXPECT_SAME_NUMBER(kEventP2pApi, ncclProfileP2pApi);
  EXPECT_SAME_NUMBER(kEventKernelLaunch, ncclProfileKernelLaunch);
  EXPECT_SAME_NUMBER(kEventCeColl, ncclProfileCeColl);
  EXPECT_SAME_NUMBER(kEventCeSync, ncclProfileCeSync);
  EXPECT_SAME_NUMBER(kEventCeBatch, ncclProfileCeBatch);
  EXPECT_SAME_NUMBER(EventState::kProxyStepSendGpuWait, ncclProfilerProxyStepSendGPUWait);
  EXPECT_SAME_NUMBER(EventState::kProxyStepSendWait, ncclProfilerProxyStepSendWait);
  EXPECT_SAME_NUMBER(EventState::kProxyStepRecvWait, ncclProfilerProxyStepRecvWait);
  EXPECT_SAME_NUMBER(EventState::kProxyStepRecvFlushWait, ncclProfilerProxyStepRecvFlushWait);
  EXPECT_SAME_NUMBER(EventState::kProxyStepRecvGpuWait, ncclProfilerProxyStepRecvGPUWait);
  EXPECT_SAME_NUMBER(EventState::kProxyOpInProgress, ncclProfilerProxyOpInProgress_v4);
  EXPECT_SAME_NUMBER(EventState::kProxyStepSendPeerWait, ncclProfilerProxyStepSendPeerWait_v4);
  EXPECT_SAME_NUMBER(EventState::kNetPluginUpdate, ncclProfilerNetPluginUpdate);
  EXPECT_SAME_NUMBER(EventState::kKernelChannelStop, ncclProfilerKernelChStop);
  EXPECT_SAME_NUMBER(EventState::kGroupStartApiStop, ncclProfilerGroupStartApiStop);
  EXPECT_SAME_NUMBER(EventState::kGroupEndApiStart, ncclProfilerGroupEndApiStart);
  EXPECT_SAME_NUMBER(kProxyOpSendTransmitted, ncclProfilerProxyOpSendTransmitted);
  EXPECT_SAME_NUMBER(kProxyOpRecvReceived, ncclProfilerProxyOpRecvReceived);
}

}  // namespace
