"""Programs of training ranks: pipelines (1F1B, interleaved) of tensor-, context- and data-parallel layers,
mixtures of experts, and fully sharded data parallelism. A fine program has one op per kernel, a coarse one
a few per microbatch."""
import collections
import math

from engine import COMMUNICATION, COMPUTE, COPY, Collective, Event, Gap, Launch, Mark, Op, Sync

Klass = collections.namedtuple("Klass", "name role memory grid block")

GEMM = Klass("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_cublas", "gemm", False, (132, 8, 1), (384, 1, 1))
GEMM_UP = Klass("sm90_xmma_gemm_bf16bf16_bf16f32_f32_nn_n_tilesize256x128x64_cublas", "gemm", False, (264, 8, 1), (384, 1, 1))
GEMM_OUT = GEMM._replace(grid=(66, 8, 1))
GEMM_BACK = Klass("sm90_xmma_gemm_bf16bf16_bf16f32_f32_nt_n_tilesize128x128x64_cublas", "gemm", False, (132, 8, 1), (384, 1, 1))
GEMM_UP_BACK = Klass("sm90_xmma_gemm_bf16bf16_bf16f32_f32_nt_n_tilesize256x128x64_cublas", "gemm", False, (264, 8, 1), (384, 1, 1))
ATTENTION = Klass("flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4>>", "attention", False, (64, 16, 8), (128, 1, 1))
ATTENTION_BACK = Klass("flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<128>", "attention", False, (32, 16, 8), (256, 1, 1))
NORM = Klass("void rms_norm_kernel<__nv_bfloat16, float>", "element", True, (4096, 1, 1), (512, 1, 1))
ACTIVATION = Klass("void silu_and_mul_kernel<__nv_bfloat16>", "element", True, (8192, 1, 1), (256, 1, 1))
NORM_BACK = NORM._replace(name="void rms_norm_backward_kernel<__nv_bfloat16, float>")
ACTIVATION_BACK = ACTIVATION._replace(name="void silu_and_mul_backward_kernel<__nv_bfloat16>")
EXPERT = Klass("void grouped_gemm_kernel<__nv_bfloat16>", "expert", False, (132, 1, 1), (384, 1, 1))
EXPERT_BACK = EXPERT._replace(name="void grouped_gemm_backward_kernel<__nv_bfloat16>")
OPTIMIZER = Klass("void multi_tensor_apply_kernel<AdamFunctor<float, float>>", "element", True, (320, 1, 1), (512, 1, 1))
LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
COPY_IN = Klass("Memcpy HtoD (Pinned -> Device)", "h2d", True, None, None)
COPY_OUT = Klass("Memcpy DtoH (Device -> Pageable)", "d2h", True, None, None)
_CHANNELS = {"all_reduce": "AllReduce_Sum_bf16_RING_LL128", "all_gather": "AllGather_RING_SIMPLE", "reduce_scatter": "ReduceScatter_Sum_bf16_RING_SIMPLE",
             "all_to_all": "SendRecv", "all_to_all_v": "SendRecv", "send": "SendRecv", "receive": "SendRecv"}
NCCL = {op: Klass(f"ncclDevKernel_{name}(ncclDevKernelArgsStorage<4096ul>)", op, True, (16, 1, 1), (544, 1, 1)) for op, name in _CHANNELS.items()}

MAIN, TP, DP, EP, CP, WORLD, GATHER, SCATTER, COPIES = 7, 13, 15, 16, 17, 19, 21, 22, 25
FORWARD_SEND, FORWARD_RECEIVE, BACKWARD_SEND, BACKWARD_RECEIVE = 27, 28, 29, 30


def schedule(stage, stages, chunks, batches):
    """Returns [('F' or 'B', microbatch, chunk)] of a stage: 1F1B, or interleaved if the stage has several
    chunks."""
    total = batches * chunks

    def forward(k):
        if chunks == 1:
            return ("F", k, 0)
        return ("F", k // (stages * chunks) * stages + k % stages, k // stages % chunks)

    def backward(k):
        if chunks == 1:
            return ("B", k, 0)
        return ("B", k // (stages * chunks) * stages + k % stages, chunks - 1 - k // stages % chunks)

    warm = stages - stage - 1 if chunks == 1 else (stages - stage - 1) * 2 + (chunks - 1) * stages
    warm = min(warm, total)
    order = [forward(k) for k in range(warm)]
    for k in range(total - warm):
        order += [forward(warm + k), backward(k)]
    return order + [backward(k) for k in range(total - warm, total)]


class Collectives:
    """All collectives of a job. The first member's request creates one. The n-th collective of a group is the
    same for all members."""

    def __init__(self, layout, faults, parameters, rng_of):
        self.layout, self.faults, self.p, self.rng_of = layout, faults, parameters, rng_of
        self.all, self._made, self._rngs, self._habits = [], {}, {}, {}
        self._functions = collections.Counter()

    def get(self, key, group, operation, kind, bytes_, step, buffered=False, pair=None, seconds=None):
        """`key` names the instance. `seconds` replaces the time from size and bandwidth. A message goes from
        the first of `pair` to the second. Its time, and the effect of a link's fault on it, depend on
        their path and not on the group."""
        coll = self._made.get((group, key))
        if coll is not None:
            return coll
        g = self.layout.groups[group]
        rng = self._rngs.get(group)
        if rng is None:
            rng = self._rngs[group] = self.rng_of("collectives", g.key)
            self._habits[group] = [rng.uniform(0.0, self.p["exit_habit"]) for _ in g.members]
        way = g if pair is None else self.layout.way(g, pair)
        n = len(way.members)
        ideal = self._time(way, operation, n, bytes_) if seconds is None else seconds * 1e9
        time = ideal * max(0.5, 1.0 + self.p["transfer_noise"] * rng.gauss(0.0, 1.0))
        for fault in self.faults:
            time *= fault.transfer(way, step)
        habits = self._habits[group] if pair is None else (0.0, 0.0)
        skew = [time * h + rng.expovariate(1.0 / self.p["exit_skew"]) for h in habits]
        numbers = (self._functions[(group, operation)], self._functions[group])  # NCCL counts per function, frameworks per group
        self._functions[(group, operation)] += 1
        self._functions[group] += 1
        coll = Collective(len(self.all), group, operation, kind, n, time, skew, bytes_, numbers, buffered)
        self.all.append(coll)
        self._made[(group, key)] = coll
        return coll

    def _time(self, group, operation, n, bytes_):
        bandwidth = self.p["outer_bandwidth"] if group.between_hosts else self.p["inner_bandwidth"]
        factor = {"all_reduce": 2.0 * (n - 1) / n, "send": 1.0, "receive": 1.0}.get(operation, (n - 1) / n)
        hops = 1 if operation in ("send", "receive") else math.log2(n) + 1
        latency = self.p["outer_latency"] if group.between_hosts else self.p["inner_latency"]
        return latency * hops + bytes_ * factor / bandwidth * 1e9


class Program:
    """The instructions of one rank's host thread."""

    def __init__(self, job, rank):
        self.job, self.rank, self.p = job, rank, job.parameters
        self.layout, self.at = job.layout, job.layout.at[rank]
        self.items, self.counts = [], collections.Counter()
        self.rng = job.noise.streams[rank]
        self.batch, self.step = 0, 0

    def build(self):
        for self.step in range(self.p["steps"] + 1):
            begin = len(self.items)
            self.items.append(Mark(self.step))
            self._head()
            if self.p["topology"] == "fsdp":
                self._sharded_step()
            else:
                self._pipeline_step()
            self._tail()
            self._stall(begin)
        self.items.append(Mark(self.p["steps"] + 1))
        return self.items

    # ---- one instruction

    def _launch(self, stream, kind, kernel_class, work, bytes_=0):
        p, rng = self.p, self.rng
        think = p["think"] * (0.7 + 0.6 * rng.random())
        for fault in self.job.faults:
            think += fault.think(self.rank, self.step)
        op = Op(self.rank, stream, kind, kernel_class, work, 600.0 + 900.0 * rng.random(), think, p["call"] * (0.8 + 0.4 * rng.random()), self.step, bytes_)
        self.items.append(Launch(op))
        return op

    def compute(self, kernel_class, nanoseconds):
        work = nanoseconds * self.job.noise.factor(self.rank, self.step) * max(0.3, 1.0 + self.job.noise.operation * self.rng.gauss(0.0, 1.0))
        for fault in self.job.faults:
            work *= fault.compute(self.rank, self.step, kernel_class, self.batch)
        return self._launch(MAIN, COMPUTE, kernel_class, work)

    def copy(self, kernel_class, bytes_):
        work = (4000.0 + bytes_ / self.p["copy_bandwidth"] * 1e9) * max(0.5, 1.0 + 0.02 * self.rng.gauss(0.0, 1.0))
        for fault in self.job.faults:
            work *= fault.copy(self.rank, self.step)
        return self._launch(COPIES, COPY, kernel_class, work, bytes_)

    def collective(self, stream, group, operation, bytes_, wait=True, after_main=True, own_bytes=None):
        """Adds the group's next collective. Its stream waits for the main stream's work, and the main stream
        for it, as in PyTorch."""
        key = self.counts[group]
        self.counts[group] += 1
        coll = self.job.collectives.get(key, group, operation, "all", bytes_, self.step)
        members = self.job.member_of[group]
        if after_main:
            self.items.append(Event(MAIN, stream))
        op = self._launch(stream, COMMUNICATION, NCCL[operation], 0.0, bytes_ if own_bytes is None else own_bytes)
        op.coll, op.member = coll, members[self.rank]
        if wait:
            self.items.append(Event(stream, MAIN))
        return op

    def message(self, stream, sends, key, group, bytes_):
        _, what, _, place = key
        members = self.layout.groups[group].members
        pair = [members[stage % self.layout.pp] for stage in (place, place + 1 if what == "F" else place - 1)]
        coll = self.job.collectives.get(key, group, "send", "p2p", bytes_, self.step, buffered=bytes_ <= self.p["buffered"], pair=pair)
        self.items.append(Event(MAIN, stream))
        op = self._launch(stream, COMMUNICATION, NCCL["send" if sends else "receive"], 0.0, bytes_)
        op.coll, op.member = coll, 0 if sends else 1
        if not sends:
            self.items.append(Event(stream, MAIN))
        return op

    # ---- a step

    def _head(self):
        extra = sum(f.head(self.rank, self.step) for f in self.job.faults)
        self.items.append(Gap(self.p["head"] * (0.8 + 0.4 * self.rng.random()) + extra, range=LOADER))
        if self.at.pp == 0 or self.p["fine"]:
            self.copy(COPY_IN, self.p["input_bytes"])
            self.items.append(Event(COPIES, MAIN))

    def _tail(self):
        if self.p["sync"]:
            self.items.append(Event(MAIN, COPIES))
            self.copy(COPY_OUT, 8)
            self.items.append(Sync(COPIES))

    def _stall(self, begin):
        """Inserts the step's pauses between its instructions. It starts with the last one, so that the other
        places stay valid."""
        stalls = [(place, length, None) for place, length in [self.job.noise.pauses[self.rank].get(self.step, (0.0, 0.0))] if length > 0]
        for fault in self.job.faults:
            stalls += fault.stalls(self.rank, self.step)
        size = len(self.items) - begin
        for place, length, name in sorted(stalls, key=lambda stall: -stall[0]):
            if name == "checkpoint":
                copied = int(0.2 * length * self.p["copy_bandwidth"] * 1e-9)
                op = Op(self.rank, COPIES, COPY, COPY_OUT, 0.2 * length, step=self.step, bytes_=copied)
                self.items += [Event(MAIN, COPIES), Launch(op), Sync(COPIES), Gap(0.8 * length)]
                continue
            at = begin + 1 + int(place * (size - 1))
            self.items.insert(at, Gap(length, name))

    # ---- layers

    def _forward(self, scale=1.0):
        p = self.p
        for _ in range(p["layers"]):
            self.compute(NORM, p["element"])
            self.compute(GEMM, p["gemm"])
            if self.layout.cp > 1:
                self.collective(CP, self.layout.cp_of[self.rank], "all_gather", p["cp_bytes"])
            self.compute(ATTENTION, p["attention"])
            if p["fine"]:
                self.compute(GEMM_OUT, 0.35 * p["gemm"])
            if self.layout.tp > 1 and p["fine"]:
                self.collective(TP, self.layout.tp_of[self.rank], "all_reduce", p["tp_bytes"])
            if self.layout.ep > 1:
                self._experts(1.0)
            else:
                if p["fine"]:
                    self.compute(ACTIVATION, 0.7 * p["element"])
                self.compute(GEMM_UP, 1.6 * p["gemm"])
            if self.layout.tp > 1:
                self.collective(TP, self.layout.tp_of[self.rank], "all_reduce", p["tp_bytes"])

    def _backward(self, last):
        p = self.p
        for _ in range(p["layers"]):
            if p["recompute"]:  # the forward kernels run again, under the same names
                self.compute(NORM, p["element"])
                self.compute(GEMM, p["gemm"])
                self.compute(ATTENTION, p["attention"])
            if self.layout.ep > 1:
                self._experts(2.0)
            else:
                self.compute(GEMM_UP_BACK, 3.2 * p["gemm"])
                if p["fine"]:
                    self.compute(ACTIVATION_BACK, 1.4 * p["element"])
            if self.layout.tp > 1:
                self.collective(TP, self.layout.tp_of[self.rank], "all_reduce", p["tp_bytes"])
            if last and self.layout.dp > 1:  # overlaps with the rest of the backward pass
                self.collective(DP, self.layout.dp_of[self.rank], "reduce_scatter" if p["sharded"] else "all_reduce", p["dp_bytes"], wait=False)
            self.compute(ATTENTION_BACK, 2.2 * p["attention"])
            if self.layout.cp > 1:
                self.collective(CP, self.layout.cp_of[self.rank], "reduce_scatter", p["cp_bytes"])
            self.compute(GEMM_BACK, 2.7 * p["gemm"])
            self.compute(NORM_BACK, 1.5 * p["element"])
            if self.layout.tp > 1 and p["fine"]:
                self.collective(TP, self.layout.tp_of[self.rank], "all_reduce", p["tp_bytes"])

    def _experts(self, factor):
        p = self.p
        group = self.layout.ep_of[self.rank]
        members = self.layout.groups[group].members
        loads = [math.prod(f.load(r, self.step) for f in self.job.faults) for r in members]
        even = all(load == loads[0] for load in loads)
        operation = "all_to_all" if p["even_experts"] else "all_to_all_v"
        own = math.prod(f.load(self.rank, self.step) for f in self.job.faults)
        self.compute(ACTIVATION, 0.4 * p["element"] * factor)
        bytes_ = int(p["ep_bytes"] * (1.0 if even else max(loads)))
        self.collective(EP, group, operation, bytes_, own_bytes=int(p["ep_bytes"] * own))
        self.compute(EXPERT if factor == 1.0 else EXPERT_BACK, 1.5 * p["gemm"] * factor * own)
        self.collective(EP, group, operation, bytes_, own_bytes=int(p["ep_bytes"] * own))

    # ---- pipeline

    def _pipeline_step(self):
        p, layout, at = self.p, self.layout, self.at
        if layout.dp > 1 and p["sharded"] and self.step > 0:
            self.items.append(Event(DP, MAIN))
        stages, chunks = layout.pp, p["chunks"]
        group = layout.pp_of[self.rank] if stages > 1 else -1
        last_of_chunk = {}
        order = schedule(at.pp, stages, chunks, p["microbatches"])
        for what, batch, chunk in order:
            if what == "B":
                last_of_chunk[chunk] = batch
        for what, batch, chunk in order:
            self.batch = batch
            place = chunk * stages + at.pp  # position of the layers in the whole model
            first, final = place == 0, place == chunks * stages - 1
            key = (self.step, what, batch)
            if what == "F":
                if not first:
                    self.message(FORWARD_RECEIVE, False, (*key, place - 1), group, p["pp_bytes"])
                self._forward()
                if not final:
                    self.message(FORWARD_SEND, True, (*key, place), group, p["pp_bytes"])
            else:
                if not final:
                    self.message(BACKWARD_RECEIVE, False, (*key, place + 1), group, p["pp_bytes"])
                self._backward(last_of_chunk[chunk] == batch)
                if not first:
                    self.message(BACKWARD_SEND, True, (*key, place), group, p["pp_bytes"])
        if layout.dp > 1:
            self.items.append(Event(DP, MAIN))
        self.collective(WORLD, layout.world_group, "all_reduce", 4)
        self.compute(OPTIMIZER, p["optimizer"])
        if layout.dp > 1 and p["sharded"]:
            self.collective(DP, layout.dp_of[self.rank], "all_gather", p["dp_bytes"], wait=False)

    # ---- fully sharded

    def _sharded_step(self):
        """All-gathers run at most two layers ahead. Reduce-scatters run after their layers."""
        p, group = self.p, self.layout.dp_of[self.rank]
        layers = p["layers"]

        def gather(layer):
            self.collective(GATHER, group, "all_gather", p["dp_bytes"], wait=False, after_main=layer >= 2)

        gather(0)
        for layer in range(layers):
            self.items.append(Event(GATHER, MAIN))
            if layer + 1 < layers:
                gather(layer + 1)
            self._layer_of_shard(1.0)
        gather(2)
        for layer in range(layers):
            self.items.append(Event(GATHER, MAIN))
            if layer + 1 < layers:
                gather(layer + 2)
            self._layer_of_shard(2.2)
            self.collective(SCATTER, group, "reduce_scatter", p["dp_bytes"], wait=False)
        self.items.append(Event(SCATTER, MAIN))
        self.collective(WORLD, self.layout.world_group, "all_reduce", 4)
        self.compute(OPTIMIZER, p["optimizer"])

    def _layer_of_shard(self, factor):
        p = self.p
        forward = factor == 1.0
        if not forward and p["recompute"]:
            self._layer_of_shard(1.0)
        self.compute(NORM if forward else NORM_BACK, p["element"] * factor)
        self.compute(GEMM if forward else GEMM_BACK, 1.4 * p["gemm"] * factor)
        self.compute(ATTENTION if forward else ATTENTION_BACK, p["attention"] * factor)
        if p["fine"]:
            self.compute(ACTIVATION if forward else ACTIVATION_BACK, 0.7 * p["element"] * factor)
        self.compute(GEMM_UP if forward else GEMM_UP_BACK, 1.6 * p["gemm"] * factor)
