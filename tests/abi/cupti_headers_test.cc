// Compares the project's declarations of CUPTI with the real headers, if a CUDA toolkit is installed.
#include <cupti.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <type_traits>

#include "sim/cupti/record_size.h"
#include "tests/abi/same_as_header.h"
#include "wire/foreign/cupti.h"

namespace {

namespace cupti = lockstep::foreign::cupti;

TEST(CuptiDeclarations, KernelRecordEqualsTheHeaderFieldByField) {
  using Ours = cupti::Kernel10;
  using Theirs = CUpti_ActivityKernel10;
  EXPECT_SAME_SIZE(Ours, Theirs);
  EXPECT_SAME_FIELD(Ours, kind, Theirs, kind);
  EXPECT_SAME_FIELD(Ours, registers_per_thread, Theirs, registersPerThread);
  EXPECT_SAME_FIELD(Ours, start, Theirs, start);
  EXPECT_SAME_FIELD(Ours, end, Theirs, end);
  EXPECT_SAME_FIELD(Ours, completed, Theirs, completed);
  EXPECT_SAME_FIELD(Ours, device_id, Theirs, deviceId);
  EXPECT_SAME_FIELD(Ours, context_id, Theirs, contextId);
  EXPECT_SAME_FIELD(Ours, stream_id, Theirs, streamId);
  EXPECT_SAME_FIELD(Ours, grid_x, Theirs, gridX);
  EXPECT_SAME_FIELD(Ours, grid_y, Theirs, gridY);
  EXPECT_SAME_FIELD(Ours, grid_z, Theirs, gridZ);
  EXPECT_SAME_FIELD(Ours, block_x, Theirs, blockX);
  EXPECT_SAME_FIELD(Ours, block_y, Theirs, blockY);
  EXPECT_SAME_FIELD(Ours, block_z, Theirs, blockZ);
  EXPECT_SAME_FIELD(Ours, static_shared_memory, Theirs, staticSharedMemory);
  EXPECT_SAME_FIELD(Ours, dynamic_shared_memory, Theirs, dynamicSharedMemory);
  EXPECT_SAME_FIELD(Ours, local_memory_per_thread, Theirs, localMemoryPerThread);
  EXPECT_SAME_FIELD(Ours, local_memory_total, Theirs, localMemoryTotal);
  EXPECT_SAME_FIELD(Ours, correlation_id, Theirs, correlationId);
  EXPECT_SAME_FIELD(Ours, grid_id, Theirs, gridId);
  EXPECT_SAME_FIELD(Ours, name, Theirs, name);
  EXPECT_SAME_FIELD(Ours, queued, Theirs, queued);
  EXPECT_SAME_FIELD(Ours, submitted, Theirs, submitted);
  EXPECT_SAME_FIELD(Ours, launch_type, Theirs, launchType);
  EXPECT_SAME_FIELD(Ours, shared_memory_executed, Theirs, sharedMemoryExecuted);
  EXPECT_SAME_FIELD(Ours, graph_node_id, Theirs, graphNodeId);
  EXPECT_SAME_FIELD(Ours, graph_id, Theirs, graphId);
  EXPECT_SAME_FIELD(Ours, access_policy_window, Theirs, pAccessPolicyWindow);
  EXPECT_SAME_FIELD(Ours, channel_id, Theirs, channelID);
  EXPECT_SAME_FIELD(Ours, channel_type, Theirs, channelType);
  EXPECT_SAME_FIELD(Ours, cluster_x, Theirs, clusterX);
  EXPECT_SAME_FIELD(Ours, cluster_scheduling_policy, Theirs, clusterSchedulingPolicy);
  EXPECT_SAME_FIELD(Ours, local_memory_total_64, Theirs, localMemoryTotal_v2);
  EXPECT_SAME_FIELD(Ours, max_potential_cluster_size, Theirs, maxPotentialClusterSize);
  EXPECT_SAME_FIELD(Ours, is_device_launched, Theirs, isDeviceLaunched);
}

TEST(CuptiDeclarations, OlderKernelRecordsArePrefixesOfTheNewest) {
  EXPECT_EQ(cupti::kKernelBytesOldest, sizeof(CUpti_ActivityKernel4));
  EXPECT_EQ(cupti::kKernelBytesWithGraph, sizeof(CUpti_ActivityKernel5));
  EXPECT_EQ(cupti::kKernelBytesWithChannel, sizeof(CUpti_ActivityKernel7));
  EXPECT_EQ(offsetof(cupti::Kernel10, name), offsetof(CUpti_ActivityKernel4, name));
  EXPECT_EQ(offsetof(cupti::Kernel10, graph_id), offsetof(CUpti_ActivityKernel5, graphId));
  EXPECT_EQ(offsetof(cupti::Kernel10, channel_id), offsetof(CUpti_ActivityKernel7, channelID));
}

TEST(CuptiDeclarations, CopyRecordsEqualTheHeaderFieldByField) {
  EXPECT_SAME_SIZE(cupti::Memcpy6, CUpti_ActivityMemcpy6);
  EXPECT_SAME_FIELD(cupti::Memcpy6, copy_kind, CUpti_ActivityMemcpy6, copyKind);
  EXPECT_SAME_FIELD(cupti::Memcpy6, src_kind, CUpti_ActivityMemcpy6, srcKind);
  EXPECT_SAME_FIELD(cupti::Memcpy6, dst_kind, CUpti_ActivityMemcpy6, dstKind);
  EXPECT_SAME_FIELD(cupti::Memcpy6, flags, CUpti_ActivityMemcpy6, flags);
  EXPECT_SAME_FIELD(cupti::Memcpy6, bytes, CUpti_ActivityMemcpy6, bytes);
  EXPECT_SAME_FIELD(cupti::Memcpy6, start, CUpti_ActivityMemcpy6, start);
  EXPECT_SAME_FIELD(cupti::Memcpy6, end, CUpti_ActivityMemcpy6, end);
  EXPECT_SAME_FIELD(cupti::Memcpy6, device_id, CUpti_ActivityMemcpy6, deviceId);
  EXPECT_SAME_FIELD(cupti::Memcpy6, context_id, CUpti_ActivityMemcpy6, contextId);
  EXPECT_SAME_FIELD(cupti::Memcpy6, stream_id, CUpti_ActivityMemcpy6, streamId);
  EXPECT_SAME_FIELD(cupti::Memcpy6, correlation_id, CUpti_ActivityMemcpy6, correlationId);
  EXPECT_SAME_FIELD(cupti::Memcpy6, runtime_correlation_id, CUpti_ActivityMemcpy6, runtimeCorrelationId);
  EXPECT_SAME_FIELD(cupti::Memcpy6, graph_node_id, CUpti_ActivityMemcpy6, graphNodeId);
  EXPECT_SAME_FIELD(cupti::Memcpy6, graph_id, CUpti_ActivityMemcpy6, graphId);
  EXPECT_SAME_FIELD(cupti::Memcpy6, channel_id, CUpti_ActivityMemcpy6, channelID);
  EXPECT_SAME_FIELD(cupti::Memcpy6, channel_type, CUpti_ActivityMemcpy6, channelType);
  EXPECT_SAME_FIELD(cupti::Memcpy6, is_device_launched, CUpti_ActivityMemcpy6, isDeviceLaunched);
  EXPECT_SAME_FIELD(cupti::Memcpy6, copy_count, CUpti_ActivityMemcpy6, copyCount);

  EXPECT_SAME_SIZE(cupti::MemcpyPeer4, CUpti_ActivityMemcpyPtoP4);
  EXPECT_SAME_FIELD(cupti::MemcpyPeer4, bytes, CUpti_ActivityMemcpyPtoP4, bytes);
  EXPECT_SAME_FIELD(cupti::MemcpyPeer4, src_device_id, CUpti_ActivityMemcpyPtoP4, srcDeviceId);
  EXPECT_SAME_FIELD(cupti::MemcpyPeer4, src_context_id, CUpti_ActivityMemcpyPtoP4, srcContextId);
  EXPECT_SAME_FIELD(cupti::MemcpyPeer4, dst_device_id, CUpti_ActivityMemcpyPtoP4, dstDeviceId);
  EXPECT_SAME_FIELD(cupti::MemcpyPeer4, dst_context_id, CUpti_ActivityMemcpyPtoP4, dstContextId);
  EXPECT_SAME_FIELD(cupti::MemcpyPeer4, correlation_id, CUpti_ActivityMemcpyPtoP4, correlationId);
  EXPECT_SAME_FIELD(cupti::MemcpyPeer4, graph_node_id, CUpti_ActivityMemcpyPtoP4, graphNodeId);
  EXPECT_SAME_FIELD(cupti::MemcpyPeer4, graph_id, CUpti_ActivityMemcpyPtoP4, graphId);
  EXPECT_SAME_FIELD(cupti::MemcpyPeer4, channel_type, CUpti_ActivityMemcpyPtoP4, channelType);
  EXPECT_EQ(cupti::kMemcpyPeerBytesOldest, sizeof(CUpti_ActivityMemcpyPtoP));

  EXPECT_SAME_SIZE(cupti::Memset4, CUpti_ActivityMemset4);
  EXPECT_SAME_FIELD(cupti::Memset4, value, CUpti_ActivityMemset4, value);
  EXPECT_SAME_FIELD(cupti::Memset4, bytes, CUpti_ActivityMemset4, bytes);
  EXPECT_SAME_FIELD(cupti::Memset4, start, CUpti_ActivityMemset4, start);
  EXPECT_SAME_FIELD(cupti::Memset4, device_id, CUpti_ActivityMemset4, deviceId);
  EXPECT_SAME_FIELD(cupti::Memset4, correlation_id, CUpti_ActivityMemset4, correlationId);
  EXPECT_SAME_FIELD(cupti::Memset4, flags, CUpti_ActivityMemset4, flags);
  EXPECT_SAME_FIELD(cupti::Memset4, memory_kind, CUpti_ActivityMemset4, memoryKind);
  EXPECT_SAME_FIELD(cupti::Memset4, graph_node_id, CUpti_ActivityMemset4, graphNodeId);
  EXPECT_SAME_FIELD(cupti::Memset4, graph_id, CUpti_ActivityMemset4, graphId);
  EXPECT_SAME_FIELD(cupti::Memset4, channel_id, CUpti_ActivityMemset4, channelID);
}

TEST(CuptiDeclarations, OlderCopyRecordsEndAfterTheGuardedFields) {
  EXPECT_LE(offsetof(CUpti_ActivityMemcpy4, graphId) + sizeof(uint32_t), cupti::kMemcpyBytesWithGraph);
  EXPECT_EQ(sizeof(CUpti_ActivityMemcpy), cupti::kMemcpyBytesOldest);
  EXPECT_EQ(sizeof(CUpti_ActivityMemset), cupti::kMemsetBytesOldest);
  EXPECT_LE(cupti::kMemcpyBytesWithGraph, sizeof(CUpti_ActivityMemcpy4));
  EXPECT_LE(cupti::kMemsetBytesWithGraph, sizeof(CUpti_ActivityMemset3));
  EXPECT_LE(cupti::kMemcpyPeerBytesWithGraph, sizeof(CUpti_ActivityMemcpyPtoP3));
  EXPECT_EQ(cupti::kSynchronizationBytesOldest, sizeof(CUpti_ActivitySynchronization));
  EXPECT_EQ(cupti::kCudaEventBytesOldest, sizeof(CUpti_ActivityCudaEvent));
  EXPECT_EQ(cupti::kOverheadBytesOldest, sizeof(CUpti_ActivityOverhead));
}

TEST(CuptiDeclarations, ApiSyncAndSmallRecordsEqualTheHeaderFieldByField) {
  EXPECT_SAME_SIZE(cupti::Api, CUpti_ActivityAPI);
  EXPECT_SAME_FIELD(cupti::Api, cbid, CUpti_ActivityAPI, cbid);
  EXPECT_SAME_FIELD(cupti::Api, start, CUpti_ActivityAPI, start);
  EXPECT_SAME_FIELD(cupti::Api, end, CUpti_ActivityAPI, end);
  EXPECT_SAME_FIELD(cupti::Api, process_id, CUpti_ActivityAPI, processId);
  EXPECT_SAME_FIELD(cupti::Api, thread_id, CUpti_ActivityAPI, threadId);
  EXPECT_SAME_FIELD(cupti::Api, correlation_id, CUpti_ActivityAPI, correlationId);
  EXPECT_SAME_FIELD(cupti::Api, return_value, CUpti_ActivityAPI, returnValue);

  EXPECT_SAME_SIZE(cupti::Synchronization2, CUpti_ActivitySynchronization2);
  EXPECT_SAME_FIELD(cupti::Synchronization2, type, CUpti_ActivitySynchronization2, type);
  EXPECT_SAME_FIELD(cupti::Synchronization2, start, CUpti_ActivitySynchronization2, start);
  EXPECT_SAME_FIELD(cupti::Synchronization2, correlation_id, CUpti_ActivitySynchronization2, correlationId);
  EXPECT_SAME_FIELD(cupti::Synchronization2, context_id, CUpti_ActivitySynchronization2, contextId);
  EXPECT_SAME_FIELD(cupti::Synchronization2, stream_id, CUpti_ActivitySynchronization2, streamId);
  EXPECT_SAME_FIELD(cupti::Synchronization2, cuda_event_id, CUpti_ActivitySynchronization2, cudaEventId);
  EXPECT_SAME_FIELD(cupti::Synchronization2, cuda_event_sync_id, CUpti_ActivitySynchronization2,
                    cudaEventSyncId);
  EXPECT_SAME_FIELD(cupti::Synchronization2, return_value, CUpti_ActivitySynchronization2, returnValue);

  EXPECT_SAME_SIZE(cupti::ExternalCorrelation, CUpti_ActivityExternalCorrelation);
  EXPECT_SAME_FIELD(cupti::ExternalCorrelation, external_kind, CUpti_ActivityExternalCorrelation,
                    externalKind);
  EXPECT_SAME_FIELD(cupti::ExternalCorrelation, external_id, CUpti_ActivityExternalCorrelation, externalId);
  EXPECT_SAME_FIELD(cupti::ExternalCorrelation, correlation_id, CUpti_ActivityExternalCorrelation,
                    correlationId);

  EXPECT_SAME_SIZE(cupti::CudaEvent2, CUpti_ActivityCudaEvent2);
  EXPECT_SAME_FIELD(cupti::CudaEvent2, correlation_id, CUpti_ActivityCudaEvent2, correlationId);
  EXPECT_SAME_FIELD(cupti::CudaEvent2, event_id, CUpti_ActivityCudaEvent2, eventId);
  EXPECT_SAME_FIELD(cupti::CudaEvent2, device_id, CUpti_ActivityCudaEvent2, deviceId);
  EXPECT_SAME_FIELD(cupti::CudaEvent2, device_timestamp, CUpti_ActivityCudaEvent2, deviceTimestamp);

  EXPECT_SAME_SIZE(cupti::Overhead3, CUpti_ActivityOverhead3);
  EXPECT_SAME_FIELD(cupti::Overhead3, overhead_kind, CUpti_ActivityOverhead3, overheadKind);
  EXPECT_SAME_FIELD(cupti::Overhead3, object_kind, CUpti_ActivityOverhead3, objectKind);
  EXPECT_SAME_FIELD(cupti::Overhead3, object, CUpti_ActivityOverhead3, objectId);
  EXPECT_SAME_FIELD(cupti::Overhead3, start, CUpti_ActivityOverhead3, start);
  EXPECT_SAME_FIELD(cupti::Overhead3, end, CUpti_ActivityOverhead3, end);
  EXPECT_SAME_FIELD(cupti::Overhead3, correlation_id, CUpti_ActivityOverhead3, correlationId);

  EXPECT_SAME_SIZE(cupti::Context3, CUpti_ActivityContext3);
  EXPECT_SAME_FIELD(cupti::Context3, device_id, CUpti_ActivityContext3, deviceId);
  EXPECT_SAME_FIELD(cupti::Context3, null_stream_id, CUpti_ActivityContext3, nullStreamId);
  EXPECT_SAME_FIELD(cupti::Context3, multiprocessors, CUpti_ActivityContext3, numMultiprocessors);

  EXPECT_SAME_SIZE(cupti::Stream, CUpti_ActivityStream);
  EXPECT_SAME_FIELD(cupti::Context3, context_id, CUpti_ActivityContext3, contextId);
  EXPECT_SAME_FIELD(cupti::Context3, compute_api_kind, CUpti_ActivityContext3, computeApiKind);
  EXPECT_SAME_FIELD(cupti::Context3, parent_context_id, CUpti_ActivityContext3, parentContextId);
  EXPECT_SAME_FIELD(cupti::Context3, is_green_context, CUpti_ActivityContext3, isGreenContext);
  EXPECT_SAME_FIELD(cupti::Stream, context_id, CUpti_ActivityStream, contextId);
  EXPECT_SAME_FIELD(cupti::Stream, stream_id, CUpti_ActivityStream, streamId);
  EXPECT_SAME_FIELD(cupti::Stream, flag, CUpti_ActivityStream, flag);
  EXPECT_SAME_FIELD(cupti::Stream, priority, CUpti_ActivityStream, priority);
  EXPECT_SAME_FIELD(cupti::Stream, correlation_id, CUpti_ActivityStream, correlationId);

  EXPECT_SAME_SIZE(cupti::GraphTrace2, CUpti_ActivityGraphTrace2);
  EXPECT_SAME_FIELD(cupti::GraphTrace2, graph_id, CUpti_ActivityGraphTrace2, graphId);
  EXPECT_SAME_FIELD(cupti::GraphTrace2, end_device_id, CUpti_ActivityGraphTrace2, endDeviceId);

  EXPECT_SAME_SIZE(cupti::Device5, CUpti_ActivityDevice5);
  EXPECT_SAME_FIELD(cupti::Device5, core_clock_khz, CUpti_ActivityDevice5, coreClockRate);
  EXPECT_EQ(offsetof(cupti::Device5, max_grid_dim), offsetof(CUpti_ActivityDevice5, maxGridDimX));
  EXPECT_SAME_FIELD(cupti::Device5, uuid, CUpti_ActivityDevice5, uuid);
  EXPECT_SAME_FIELD(cupti::Device5, name, CUpti_ActivityDevice5, name);
  EXPECT_SAME_FIELD(cupti::Device5, mig_uuid, CUpti_ActivityDevice5, migUuid);
  EXPECT_SAME_FIELD(cupti::Device5, numa_id, CUpti_ActivityDevice5, numaId);
  EXPECT_SAME_FIELD(cupti::Device5, memory_bandwidth, CUpti_ActivityDevice5, globalMemoryBandwidth);
  EXPECT_SAME_FIELD(cupti::Device5, memory_bytes, CUpti_ActivityDevice5, globalMemorySize);
  EXPECT_SAME_FIELD(cupti::Device5, l2_cache_bytes, CUpti_ActivityDevice5, l2CacheSize);
  EXPECT_SAME_FIELD(cupti::Device5, copy_engines, CUpti_ActivityDevice5, numMemcpyEngines);
  EXPECT_SAME_FIELD(cupti::Device5, multiprocessors, CUpti_ActivityDevice5, numMultiprocessors);
  EXPECT_SAME_FIELD(cupti::Device5, max_warps_per_multiprocessor, CUpti_ActivityDevice5,
                    maxWarpsPerMultiprocessor);
  EXPECT_SAME_FIELD(cupti::Device5, compute_major, CUpti_ActivityDevice5, computeCapabilityMajor);
  EXPECT_SAME_FIELD(cupti::Device5, id, CUpti_ActivityDevice5, id);
  EXPECT_SAME_FIELD(cupti::Device5, is_cuda_visible, CUpti_ActivityDevice5, isCudaVisible);
  EXPECT_SAME_FIELD(cupti::Device5, is_mig_enabled, CUpti_ActivityDevice5, isMigEnabled);
  EXPECT_SAME_FIELD(cupti::Device5, gpu_instance_id, CUpti_ActivityDevice5, gpuInstanceId);
  EXPECT_SAME_FIELD(cupti::Device5, is_numa_node, CUpti_ActivityDevice5, isNumaNode);

  EXPECT_SAME_SIZE(cupti::Memory4, CUpti_ActivityMemory4);
  EXPECT_SAME_FIELD(cupti::Memory4, operation, CUpti_ActivityMemory4, memoryOperationType);
  EXPECT_SAME_FIELD(cupti::Memory4, memory_kind, CUpti_ActivityMemory4, memoryKind);
  EXPECT_SAME_FIELD(cupti::Memory4, correlation_id, CUpti_ActivityMemory4, correlationId);
  EXPECT_SAME_FIELD(cupti::Memory4, address, CUpti_ActivityMemory4, address);
  EXPECT_SAME_FIELD(cupti::Memory4, bytes, CUpti_ActivityMemory4, bytes);
  EXPECT_SAME_FIELD(cupti::Memory4, timestamp, CUpti_ActivityMemory4, timestamp);
  EXPECT_SAME_FIELD(cupti::Memory4, device_id, CUpti_ActivityMemory4, deviceId);
  EXPECT_SAME_FIELD(cupti::Memory4, context_id, CUpti_ActivityMemory4, contextId);
  EXPECT_SAME_FIELD(cupti::Memory4, stream_id, CUpti_ActivityMemory4, streamId);
  EXPECT_SAME_FIELD(cupti::Memory4, is_async, CUpti_ActivityMemory4, isAsync);
  EXPECT_SAME_FIELD(cupti::Memory4, pool.type, CUpti_ActivityMemory4, memoryPoolConfig.memoryPoolType);
  EXPECT_SAME_FIELD(cupti::Memory4, pool.address, CUpti_ActivityMemory4, memoryPoolConfig.address);
  EXPECT_SAME_FIELD(cupti::Memory4, pool.size_or_process, CUpti_ActivityMemory4, memoryPoolConfig.pool.size);
  EXPECT_SAME_FIELD(cupti::Memory4, pool.utilized_bytes, CUpti_ActivityMemory4,
                    memoryPoolConfig.utilizedSize);
}

TEST(CuptiDeclarations, NumbersEqualTheHeader) {
  using K = cupti::ActivityKind;
  EXPECT_SAME_VALUE(K::kMemcpy, CUPTI_ACTIVITY_KIND_MEMCPY);
  EXPECT_SAME_VALUE(K::kMemset, CUPTI_ACTIVITY_KIND_MEMSET);
  EXPECT_SAME_VALUE(K::kKernel, CUPTI_ACTIVITY_KIND_KERNEL);
  EXPECT_SAME_VALUE(K::kDriver, CUPTI_ACTIVITY_KIND_DRIVER);
  EXPECT_SAME_VALUE(K::kRuntime, CUPTI_ACTIVITY_KIND_RUNTIME);
  EXPECT_SAME_VALUE(K::kDevice, CUPTI_ACTIVITY_KIND_DEVICE);
  EXPECT_SAME_VALUE(K::kContext, CUPTI_ACTIVITY_KIND_CONTEXT);
  EXPECT_SAME_VALUE(K::kConcurrentKernel, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  EXPECT_SAME_VALUE(K::kMarker, CUPTI_ACTIVITY_KIND_MARKER);
  EXPECT_SAME_VALUE(K::kOverhead, CUPTI_ACTIVITY_KIND_OVERHEAD);
  EXPECT_SAME_VALUE(K::kMemcpyPeer, CUPTI_ACTIVITY_KIND_MEMCPY2);
  EXPECT_SAME_VALUE(K::kCudaEvent, CUPTI_ACTIVITY_KIND_CUDA_EVENT);
  EXPECT_SAME_VALUE(K::kStream, CUPTI_ACTIVITY_KIND_STREAM);
  EXPECT_SAME_VALUE(K::kSynchronization, CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
  EXPECT_SAME_VALUE(K::kExternalCorrelation, CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);
  EXPECT_SAME_VALUE(K::kInternalLaunchApi, CUPTI_ACTIVITY_KIND_INTERNAL_LAUNCH_API);
  EXPECT_SAME_VALUE(K::kGraphTrace, CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
  EXPECT_SAME_VALUE(K::kMemory, CUPTI_ACTIVITY_KIND_MEMORY2);

  using R = cupti::Result;
  EXPECT_SAME_VALUE(R::kInvalidParameter, CUPTI_ERROR_INVALID_PARAMETER);
  EXPECT_SAME_VALUE(R::kInvalidOperation, CUPTI_ERROR_INVALID_OPERATION);
  EXPECT_SAME_VALUE(R::kOutOfMemory, CUPTI_ERROR_OUT_OF_MEMORY);
  EXPECT_SAME_VALUE(R::kMaxLimitReached, CUPTI_ERROR_MAX_LIMIT_REACHED);
  EXPECT_SAME_VALUE(R::kNotReady, CUPTI_ERROR_NOT_READY);
  EXPECT_SAME_VALUE(R::kNotCompatible, CUPTI_ERROR_NOT_COMPATIBLE);
  EXPECT_SAME_VALUE(R::kNotInitialized, CUPTI_ERROR_NOT_INITIALIZED);
  EXPECT_SAME_VALUE(R::kQueueEmpty, CUPTI_ERROR_QUEUE_EMPTY);
  EXPECT_SAME_VALUE(R::kInvalidKind, CUPTI_ERROR_INVALID_KIND);
  EXPECT_SAME_VALUE(R::kDisabled, CUPTI_ERROR_DISABLED);
  EXPECT_SAME_VALUE(R::kNotSupported, CUPTI_ERROR_NOT_SUPPORTED);
  EXPECT_SAME_VALUE(R::kInsufficientPrivileges, CUPTI_ERROR_INSUFFICIENT_PRIVILEGES);
  EXPECT_SAME_VALUE(R::kMultipleSubscribersNotSupported, CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
  EXPECT_SAME_VALUE(R::kVirtualizedDeviceInsufficientPrivileges,
                    CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES);
  EXPECT_SAME_VALUE(R::kUnknown, CUPTI_ERROR_UNKNOWN);

  EXPECT_SAME_VALUE(cupti::ExternalCorrelationKind::kCustom2, CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2);
  EXPECT_SAME_VALUE(cupti::CallbackDomain::kDriverApi, CUPTI_CB_DOMAIN_DRIVER_API);
  EXPECT_SAME_VALUE(cupti::CallbackDomain::kRuntimeApi, CUPTI_CB_DOMAIN_RUNTIME_API);
  EXPECT_SAME_VALUE(cupti::SynchronizationType::kContextSynchronize,
                    CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE);
  EXPECT_SAME_VALUE(cupti::kDoesNotApply, CUPTI_SYNCHRONIZATION_INVALID_VALUE);
  EXPECT_SAME_VALUE(cupti::MemcpyKind::kPeerToPeer, CUPTI_ACTIVITY_MEMCPY_KIND_PTOP);
  EXPECT_SAME_VALUE(cupti::MemcpyKind::kDeviceToDevice, CUPTI_ACTIVITY_MEMCPY_KIND_DTOD);
  EXPECT_SAME_VALUE(cupti::MemoryKind::kManaged, CUPTI_ACTIVITY_MEMORY_KIND_MANAGED);
  EXPECT_SAME_VALUE(cupti::MemoryKind::kManagedStatic, CUPTI_ACTIVITY_MEMORY_KIND_MANAGED_STATIC);
  EXPECT_SAME_VALUE(cupti::MemoryOperation::kAllocation, CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION);
  EXPECT_SAME_VALUE(cupti::MemoryOperation::kRelease, CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE);
  EXPECT_SAME_VALUE(cupti::MemoryPool::kLocal, CUPTI_ACTIVITY_MEMORY_POOL_TYPE_LOCAL);
  EXPECT_SAME_VALUE(cupti::MemoryPool::kImported, CUPTI_ACTIVITY_MEMORY_POOL_TYPE_IMPORTED);
  EXPECT_SAME_VALUE(cupti::StreamFlag::kDefault, CUPTI_ACTIVITY_STREAM_CREATE_FLAG_DEFAULT);
  EXPECT_SAME_VALUE(cupti::StreamFlag::kNonBlocking, CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NON_BLOCKING);
  EXPECT_SAME_VALUE(cupti::StreamFlag::kNull, CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NULL);
  EXPECT_SAME_VALUE(cupti::ComputeApi::kCudaMps, CUPTI_ACTIVITY_COMPUTE_API_CUDA_MPS);
  EXPECT_SAME_VALUE(cupti::kMemcpyFlagAsync, CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC);
  EXPECT_SAME_VALUE(cupti::kMemsetFlagAsync, CUPTI_ACTIVITY_FLAG_MEMSET_ASYNC);
  EXPECT_SAME_VALUE(cupti::OverheadKind::kActivityBufferRequest,
                    CUPTI_ACTIVITY_OVERHEAD_ACTIVITY_BUFFER_REQUEST);
  EXPECT_SAME_VALUE(cupti::OverheadKind::kInstrumentation, CUPTI_ACTIVITY_OVERHEAD_CUPTI_INSTRUMENTATION);
  EXPECT_SAME_VALUE(cupti::ObjectKind::kThread, CUPTI_ACTIVITY_OBJECT_THREAD);
  EXPECT_SAME_VALUE(cupti::ThreadIdType::kSystem, CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
  EXPECT_SAME_VALUE(cupti::kFlushForced, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  EXPECT_SAME_VALUE(cupti::Attribute::kDeviceBufferPoolLimit, CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_POOL_LIMIT);
  EXPECT_SAME_VALUE(cupti::Attribute::kZeroedOutActivityBuffer,
                    CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER);
  EXPECT_SAME_VALUE(cupti::Attribute::kDeviceBufferPreAllocate,
                    CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_PRE_ALLOCATE_VALUE);
  EXPECT_SAME_VALUE(cupti::Attribute::kPerThreadActivityBuffer,
                    CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER);
}

TEST(CuptiDeclarations, TheCallbackApiEqualsTheHeader) {
  EXPECT_SAME_SIZE(cupti::CallbackData, CUpti_CallbackData);
  EXPECT_SAME_FIELD(cupti::CallbackData, function_name, CUpti_CallbackData, functionName);
  EXPECT_SAME_FIELD(cupti::CallbackData, function_params, CUpti_CallbackData, functionParams);
  EXPECT_SAME_FIELD(cupti::CallbackData, function_return_value, CUpti_CallbackData, functionReturnValue);
  EXPECT_SAME_FIELD(cupti::CallbackData, symbol_name, CUpti_CallbackData, symbolName);
  EXPECT_SAME_FIELD(cupti::CallbackData, context_id, CUpti_CallbackData, contextUid);
  EXPECT_SAME_FIELD(cupti::CallbackData, correlation_data, CUpti_CallbackData, correlationData);
  EXPECT_SAME_FIELD(cupti::CallbackData, correlation_id, CUpti_CallbackData, correlationId);
  EXPECT_SAME_VALUE(cupti::CallbackSite::kExit, CUPTI_API_EXIT);
  EXPECT_SAME_VALUE(cupti::CallbackDomain::kNvtx, CUPTI_CB_DOMAIN_NVTX);
  EXPECT_SAME_SIZE(cupti::SubscriberParams, CUpti_SubscriberParams);
  EXPECT_SAME_FIELD(cupti::SubscriberParams, name, CUpti_SubscriberParams, subscriberName);
  EXPECT_SAME_FIELD(cupti::SubscriberParams, holder, CUpti_SubscriberParams, oldSubscriberName);
  EXPECT_SAME_FIELD(cupti::SubscriberParams, holder_bytes, CUpti_SubscriberParams, oldSubscriberSize);
}

// "4 <- 8* 8* 4": the widths in bytes of a function's result and arguments; * marks pointers.
template <typename T>
std::string PassedAs() {
  if constexpr (std::is_void_v<T>)
    return "void";
  else
    return std::to_string(sizeof(T)) + (std::is_pointer_v<T> ? "*" : std::is_floating_point_v<T> ? "f" : "");
}
template <typename R, typename... A>
std::string Passes(R (*)(A...)) {
  std::string text = PassedAs<R>() + " <-";
  ((text += " " + PassedAs<A>()), ...);
  return text;
}
#define EXPECT_SAME_FUNCTION(ours, theirs)                                                              \
  EXPECT_EQ(Passes(static_cast<cupti::ours>(nullptr)), Passes(static_cast<decltype(&theirs)>(nullptr))) \
      << #theirs

TEST(CuptiDeclarations, FunctionsPassWhatTheHeaderSays) {
  EXPECT_SAME_FUNCTION(GetVersionFn, cuptiGetVersion);
  EXPECT_SAME_FUNCTION(GetResultStringFn, cuptiGetResultString);
  EXPECT_SAME_FUNCTION(GetTimestampFn, cuptiGetTimestamp);
  EXPECT_SAME_FUNCTION(SetThreadIdTypeFn, cuptiSetThreadIdType);
  EXPECT_SAME_FUNCTION(GetThreadIdTypeFn, cuptiGetThreadIdType);
  EXPECT_SAME_FUNCTION(GetCallbackNameFn, cuptiGetCallbackName);
  EXPECT_SAME_FUNCTION(ActivityRegisterCallbacksFn, cuptiActivityRegisterCallbacks);
  EXPECT_SAME_FUNCTION(ActivityEnableFn, cuptiActivityEnable);
  EXPECT_SAME_FUNCTION(ActivityEnableAndDumpFn, cuptiActivityEnableAndDump);
  EXPECT_SAME_FUNCTION(ActivityDisableFn, cuptiActivityDisable);
  EXPECT_SAME_FUNCTION(ActivityFlushAllFn, cuptiActivityFlushAll);
  EXPECT_SAME_FUNCTION(ActivityFlushPeriodFn, cuptiActivityFlushPeriod);
  EXPECT_SAME_FUNCTION(ActivityGetNextRecordFn, cuptiActivityGetNextRecord);
  EXPECT_SAME_FUNCTION(ActivityGetNumDroppedRecordsFn, cuptiActivityGetNumDroppedRecords);
  EXPECT_SAME_FUNCTION(ActivitySetAttributeFn, cuptiActivitySetAttribute);
  EXPECT_SAME_FUNCTION(ActivityGetAttributeFn, cuptiActivityGetAttribute);
  EXPECT_SAME_FUNCTION(ActivityPushExternalCorrelationIdFn, cuptiActivityPushExternalCorrelationId);
  EXPECT_SAME_FUNCTION(ActivityPopExternalCorrelationIdFn, cuptiActivityPopExternalCorrelationId);
  EXPECT_SAME_FUNCTION(ActivityEnableRuntimeApiFn, cuptiActivityEnableRuntimeApi);
  EXPECT_SAME_FUNCTION(ActivityEnableDriverApiFn, cuptiActivityEnableDriverApi);
  EXPECT_SAME_FUNCTION(ActivityEnableAllSyncRecordsFn, cuptiActivityEnableAllSyncRecords);
  EXPECT_SAME_FUNCTION(ActivityRegisterTimestampCallbackFn, cuptiActivityRegisterTimestampCallback);
  EXPECT_SAME_FUNCTION(SubscribeFn, cuptiSubscribe);
  EXPECT_SAME_FUNCTION(SubscribeV2Fn, cuptiSubscribe_v2);
  EXPECT_SAME_FUNCTION(UnsubscribeFn, cuptiUnsubscribe);
  EXPECT_SAME_FUNCTION(EnableCallbackFn, cuptiEnableCallback);
  EXPECT_SAME_FUNCTION(EnableDomainFn, cuptiEnableDomain);
  EXPECT_SAME_FUNCTION(GetDeviceIdFn, cuptiGetDeviceId);
  EXPECT_SAME_FUNCTION(GetContextIdFn, cuptiGetContextId);
  EXPECT_SAME_FUNCTION(GetStreamIdExFn, cuptiGetStreamIdEx);
  EXPECT_SAME_FUNCTION(FinalizeFn, cuptiFinalize);
  EXPECT_EQ(Passes(static_cast<cupti::BufferRequested>(nullptr)),
            Passes(static_cast<CUpti_BuffersCallbackRequestFunc>(nullptr)));
  EXPECT_EQ(Passes(static_cast<cupti::BufferCompleted>(nullptr)),
            Passes(static_cast<CUpti_BuffersCallbackCompleteFunc>(nullptr)));
  EXPECT_EQ(Passes(static_cast<cupti::TimestampCallback>(nullptr)),
            Passes(static_cast<CUpti_TimestampCallbackFunc>(nullptr)));
  EXPECT_EQ(Passes(static_cast<cupti::CallbackFn>(nullptr)),
            Passes(static_cast<CUpti_CallbackFunc>(nullptr)));
}

TEST(CuptiDeclarations, RecordSizesOfEarlierReleasesEqualTheirStructs) {
  using cupti::ActivityKind;
  using lockstep::sim::RecordSize;
  EXPECT_EQ(RecordSize(ActivityKind::kConcurrentKernel, cupti::kVersion_11_0), sizeof(CUpti_ActivityKernel5));
  EXPECT_EQ(RecordSize(ActivityKind::kConcurrentKernel, cupti::kVersion_11_2), sizeof(CUpti_ActivityKernel6));
  EXPECT_EQ(RecordSize(ActivityKind::kConcurrentKernel, cupti::kVersion_11_6), sizeof(CUpti_ActivityKernel7));
  EXPECT_EQ(RecordSize(ActivityKind::kConcurrentKernel, cupti::kVersion_11_8), sizeof(CUpti_ActivityKernel8));
  EXPECT_EQ(RecordSize(ActivityKind::kConcurrentKernel, cupti::kVersion_12_9), sizeof(CUpti_ActivityKernel9));
  EXPECT_EQ(RecordSize(ActivityKind::kConcurrentKernel), sizeof(CUpti_ActivityKernel10));
  EXPECT_EQ(RecordSize(ActivityKind::kMemcpy, cupti::kVersion_11_0), sizeof(CUpti_ActivityMemcpy3));
  EXPECT_EQ(RecordSize(ActivityKind::kMemcpy, cupti::kVersion_11_1), sizeof(CUpti_ActivityMemcpy4));
  EXPECT_EQ(RecordSize(ActivityKind::kMemcpy, cupti::kVersion_11_6), sizeof(CUpti_ActivityMemcpy5));
  EXPECT_EQ(RecordSize(ActivityKind::kMemset, cupti::kVersion_11_1), sizeof(CUpti_ActivityMemset3));
  EXPECT_EQ(RecordSize(ActivityKind::kMemcpyPeer, cupti::kVersion_11_1), sizeof(CUpti_ActivityMemcpyPtoP3));
  EXPECT_EQ(RecordSize(ActivityKind::kContext, cupti::kVersion_12_4), sizeof(CUpti_ActivityContext2));
  EXPECT_EQ(RecordSize(ActivityKind::kContext, cupti::kVersion_12_0), sizeof(CUpti_ActivityContext));
  EXPECT_EQ(RecordSize(ActivityKind::kCudaEvent, cupti::kVersion_12_5), sizeof(CUpti_ActivityCudaEvent));
}

TEST(CuptiDeclarations, CallbackIdsEqualTheHeader) {
  namespace rt = cupti::runtime_cbid;
  namespace dr = cupti::driver_cbid;
  EXPECT_SAME_VALUE(rt::kGetLastError, CUPTI_RUNTIME_TRACE_CBID_cudaGetLastError_v3020);
  EXPECT_SAME_VALUE(rt::kPeekAtLastError, CUPTI_RUNTIME_TRACE_CBID_cudaPeekAtLastError_v3020);
  EXPECT_SAME_VALUE(rt::kGetDevice, CUPTI_RUNTIME_TRACE_CBID_cudaGetDevice_v3020);
  EXPECT_SAME_VALUE(rt::kMalloc, CUPTI_RUNTIME_TRACE_CBID_cudaMalloc_v3020);
  EXPECT_SAME_VALUE(rt::kFree, CUPTI_RUNTIME_TRACE_CBID_cudaFree_v3020);
  EXPECT_SAME_VALUE(rt::kMemcpy, CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy_v3020);
  EXPECT_SAME_VALUE(rt::kMemcpyAsync, CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020);
  EXPECT_SAME_VALUE(rt::kMemcpyAsyncPtsz, CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_ptsz_v7000);
  EXPECT_SAME_VALUE(rt::kMemset, CUPTI_RUNTIME_TRACE_CBID_cudaMemset_v3020);
  EXPECT_SAME_VALUE(rt::kMemsetAsync, CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_v3020);
  EXPECT_SAME_VALUE(rt::kStreamSynchronize, CUPTI_RUNTIME_TRACE_CBID_cudaStreamSynchronize_v3020);
  EXPECT_SAME_VALUE(rt::kStreamSynchronizePtsz, CUPTI_RUNTIME_TRACE_CBID_cudaStreamSynchronize_ptsz_v7000);
  EXPECT_SAME_VALUE(rt::kStreamQuery, CUPTI_RUNTIME_TRACE_CBID_cudaStreamQuery_v3020);
  EXPECT_SAME_VALUE(rt::kStreamQueryPtsz, CUPTI_RUNTIME_TRACE_CBID_cudaStreamQuery_ptsz_v7000);
  EXPECT_SAME_VALUE(rt::kEventRecord, CUPTI_RUNTIME_TRACE_CBID_cudaEventRecord_v3020);
  EXPECT_SAME_VALUE(rt::kEventSynchronize, CUPTI_RUNTIME_TRACE_CBID_cudaEventSynchronize_v3020);
  EXPECT_SAME_VALUE(rt::kEventQuery, CUPTI_RUNTIME_TRACE_CBID_cudaEventQuery_v3020);
  EXPECT_SAME_VALUE(rt::kStreamWaitEvent, CUPTI_RUNTIME_TRACE_CBID_cudaStreamWaitEvent_v3020);
  EXPECT_SAME_VALUE(rt::kStreamWaitEventPtsz, CUPTI_RUNTIME_TRACE_CBID_cudaStreamWaitEvent_ptsz_v7000);
  EXPECT_SAME_VALUE(rt::kDeviceSynchronize, CUPTI_RUNTIME_TRACE_CBID_cudaDeviceSynchronize_v3020);
  EXPECT_SAME_VALUE(rt::kLaunchKernel, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000);
  EXPECT_SAME_VALUE(rt::kLaunchKernelPtsz, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_ptsz_v7000);
  EXPECT_SAME_VALUE(rt::kLaunchKernelExC, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_v11060);
  EXPECT_SAME_VALUE(rt::kLaunchKernelExCPtsz, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_ptsz_v11060);
  EXPECT_SAME_VALUE(rt::kGraphLaunch, CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000);
  EXPECT_SAME_VALUE(rt::kGraphLaunchPtsz, CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_ptsz_v10000);
  EXPECT_SAME_VALUE(rt::kStreamIsCapturing, CUPTI_RUNTIME_TRACE_CBID_cudaStreamIsCapturing_v10000);
  EXPECT_SAME_VALUE(rt::kStreamIsCapturingPtsz, CUPTI_RUNTIME_TRACE_CBID_cudaStreamIsCapturing_ptsz_v10000);
  EXPECT_SAME_VALUE(dr::kLaunchKernel, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel);
  EXPECT_SAME_VALUE(dr::kLaunchKernelPtsz, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz);
  EXPECT_SAME_VALUE(dr::kLaunchKernelEx, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx);
  EXPECT_SAME_VALUE(dr::kLaunchKernelExPtsz, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz);
  EXPECT_SAME_VALUE(dr::kGraphLaunch, CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch);
  EXPECT_SAME_VALUE(dr::kGraphLaunchPtsz, CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz);
}

}  // namespace
