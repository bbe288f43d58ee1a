"""Faults of a job. Each fault has a place and the cause that a report should name. Its hooks change the work,
gaps and transfers of a program. A hook that a fault does not override changes nothing."""
from noise import stream


class Fault:
    kind = "none"
    cause = None
    also = ()          # other causes that count as right
    level = "rank"     # rank, host, stage, group, data, job
    sizes = ()

    def __init__(self, seed, layout, steps, size, place, span):
        """`place` selects the fault's place. `span` selects the steps in which it acts."""
        self.layout, self.size, self.steps = layout, size, steps
        self.rng = stream(seed, "fault", self.kind, place)
        self.ranks, self.hosts, self.stage, self.group = [], [], None, None
        self.span, self.active = span, [True] * steps
        if span == "episode":
            begin = self.rng.randrange(1, max(2, steps // 2))
            self.active = [begin <= s < begin + max(3, steps // 2) for s in range(steps)]
        elif span == "intermittent":
            self.active = [s > 0 and self.rng.random() < 0.3 for s in range(steps)]
            if not any(self.active):
                self.active[steps // 2] = True
        self.put(place)

    def put(self, place):
        self.ranks = [place % self.layout.world]

    def place_known(self):
        """Returns whether the job's timeline determines the fault's place. A slow link shows only in the
        groups of its rank, so that these groups must differ from those of every other rank."""
        return True

    def describe(self):
        where = {"kind": self.kind, "cause": self.cause, "also": list(self.also), "level": self.level, "size": self.size, "span": self.span,
                 "ranks": self.ranks, "hosts": self.hosts, "stage": self.stage}
        if self.group is not None:
            where["group"] = self.layout.groups[self.group].key
        return where

    def on(self, rank, step):
        return rank in self.ranks and self.active[step]

    # The hooks follow. `kernel_class` is the kernel's class (workload.py), `batch` the microbatch. compute() returns
    # a factor.
    def compute(self, rank, step, kernel_class, batch):
        return 1.0

    def think(self, rank, step):
        """Returns additional nanoseconds before each launch."""
        return 0.0

    def head(self, rank, step):
        """Returns additional nanoseconds before a step's first copy."""
        return 0.0

    def stalls(self, rank, step):
        """Returns [(place in the step 0..1, nanoseconds, runtime call or None)]."""
        return ()

    def copy(self, rank, step):
        return 1.0

    def transfer(self, group, step):
        return 1.0

    def beside(self, rank):
        """Returns a factor on the slowdown of kernels beside communication."""
        return 1.0

    def load(self, rank, step):
        """Returns the relative number of tokens for a rank's experts."""
        return 1.0


class SlowGpu(Fault):
    kind, cause, sizes = "slow_gpu", "gpu_clock", (0.02, 0.03, 0.05, 0.10, 0.30)

    def compute(self, rank, step, kernel_class, batch):
        if not self.on(rank, step):
            return 1.0
        return 1.0 + (0.25 * self.size if kernel_class.memory else self.size)


class SlowMemory(Fault):
    kind, cause, sizes = "slow_memory", "gpu_memory", (0.3, 0.6, 1.2)

    def compute(self, rank, step, kernel_class, batch):
        return 1.0 + self.size if kernel_class.memory and self.on(rank, step) else 1.0


class Contention(Fault):
    kind, cause, sizes = "contention", "contention", (3.0, 6.0, 10.0)

    def beside(self, rank):
        return self.size if rank in self.ranks else 1.0


class HostGap(Fault):
    """A delay in milliseconds per step, spread over the launches (`launches` per step)."""
    kind, cause, sizes = "host_gap", "host_launch", (0.5, 2.0, 20.0)
    launches = 100

    def think(self, rank, step):
        return self.size * 1e6 / self.launches if self.on(rank, step) else 0.0


class Pause(Fault):
    """Pauses such as garbage collection. A host thread stops for `size` healthy steps, at a random place of
    some steps."""
    kind, cause, sizes = "pause", "host_pause", (0.2, 0.5, 1.5)
    chance = 0.35
    step_ns = 1e8

    def stalls(self, rank, step):
        if not self.on(rank, step) or step == 0:
            return ()
        rng = stream(self.rng_key(), rank, step)
        return ((rng.random(), self.size * self.step_ns * rng.uniform(0.7, 1.3), None),) if rng.random() < self.chance else ()

    def rng_key(self):
        return f"{self.kind}/{self.ranks[0]}/{self.size}"


class PauseEverywhere(Pause):
    """Pauses on every rank at different steps, as with real garbage collection."""
    kind, level = "pause_everywhere", "job"

    def put(self, place):
        self.ranks = list(range(self.layout.world))
        self.chance = min(0.35, 2.0 / self.layout.world)


class Loader(Fault):
    """A wait for the next batch, as a fraction of the healthy step (`step_ns`, set by the job)."""
    kind, cause, sizes = "loader", "data_loader", (0.05, 0.15, 0.4)
    step_ns = 1e8

    def head(self, rank, step):
        return self.size * self.step_ns if self.on(rank, step) else 0.0


class Allocator(Fault):
    """Memory allocation or code loading in the driver: calls that take a part of the healthy step, in every
    second step."""
    kind, cause, sizes = "allocator", "host_allocator", (0.1, 0.3, 0.8)
    step_ns = 1e8
    calls = ("cudaMalloc", "cudaFree", "cuModuleLoadData")

    def stalls(self, rank, step):
        if not self.on(rank, step) or step == 0:
            return ()
        rng = stream("allocator", self.ranks[0], self.size, step)
        return ((rng.random(), self.size * self.step_ns * rng.uniform(0.6, 1.4), self.calls[self.ranks[0] % 3]),) if rng.random() < 0.5 else ()


def _only_one(fault, places):
    """Returns whether no other place slows the same groups. The group of all ranks does not distinguish
    places."""
    groups = [g for g in fault.layout.groups if len(g.members) < fault.layout.world]

    def seen(ranks):
        return [i for i, g in enumerate(groups) if fault.touches(g, ranks)]

    own = seen(fault.ranks)
    inside = set(own)
    return bool(own) and len(own) < len(groups) and all(not inside <= set(seen(p)) for p in places if p != fault.ranks)


class SlowLink(Fault):
    """A slow link from a rank to other hosts. With one host, it is the link to the other ranks."""
    kind, cause, sizes = "link", "slow_link", (1.2, 2.0, 5.0)

    def transfer(self, group, step):
        return self.size if self.touches(group, self.ranks) and self.active[step] else 1.0

    def touches(self, group, ranks):
        outside = group.between_hosts or self.layout.hosts == 1
        return outside and any(r in ranks for r in group.members)

    def place_known(self):
        return _only_one(self, [[r] for r in range(self.layout.world)])


class SlowGroup(Fault):
    kind, cause, level, sizes = "link_group", "slow_link", "group", (1.2, 2.0, 5.0)

    def put(self, place):
        many = [i for i, g in enumerate(self.layout.groups) if 1 < len(g.members) < self.layout.world and g.name != "pp"]
        self.group = many[place % len(many)] if many else 0
        self.ranks = list(self.layout.groups[self.group].members)

    def transfer(self, group, step):
        return self.size if group is self.layout.groups[self.group] and self.active[step] else 1.0


class SlowNic(Fault):
    kind, cause, level, sizes = "nic", "slow_link", "host", (1.2, 2.0, 5.0)

    def put(self, place):
        self.hosts = [place % self.layout.hosts]
        self.ranks = self.layout.ranks_of_host(self.hosts[0])

    def transfer(self, group, step):
        return self.size if self.touches(group, self.ranks) and self.active[step] else 1.0

    def touches(self, group, ranks):
        return group.between_hosts and any(r in ranks for r in group.members)

    def place_known(self):
        return _only_one(self, [self.layout.ranks_of_host(h) for h in range(self.layout.hosts)])


class Congestion(Fault):
    """Transfers between hosts are slow at random: in each step, some of the groups."""
    kind, cause, level, sizes = "congestion", "congestion", "job", (2.0, 4.0)

    def put(self, place):
        self.ranks = []

    def transfer(self, group, step):
        if not group.between_hosts or not self.active[step]:
            return 1.0
        rng = stream("congestion", self.size, group.key, step)
        return 1.0 + (self.size - 1.0) * rng.random() if rng.random() < 0.35 else 1.0


class Stage(Fault):
    kind, cause, level, sizes = "stage", "stage_imbalance", "stage", (0.10, 0.20)

    def put(self, place):
        self.stage = self.layout.pp - 1 if place % 2 == 0 else place % self.layout.pp
        self.ranks = self.layout.ranks_of_stage(self.stage)

    def compute(self, rank, step, kernel_class, batch):
        return 1.0 + self.size if self.on(rank, step) else 1.0


class Sequence(Fault):
    """The replicas' batches have different sequence lengths. Attention takes as long as the sum of their
    squares."""
    kind, cause, level, sizes = "sequence", "sequence_imbalance", "data", (0.05, 0.15, 0.3)

    def put(self, place):
        self.ranks, self.place, self.known = [], place, {}

    def compute(self, rank, step, kernel_class, batch):
        if kernel_class.role != "attention" or not self.active[step]:
            return 1.0
        key = (self.layout.at[rank].dp, step, batch)
        if key not in self.known:
            self.known[key] = max(0.3, 1.0 + 2.0 * self.size * stream("sequence", self.place, *key).gauss(0.0, 1.0))
        return self.known[key]


class Experts(Fault):
    """One place of each expert group gets more tokens than the others. `ranks` are the ranks at that place."""
    kind, cause, level, sizes = "experts", "expert_imbalance", "data", (0.2, 0.5, 1.0)

    def put(self, place):
        self.hot = place % self.layout.ep
        self.ranks = [r for r in range(self.layout.world) if self.layout.at[r].dp % self.layout.ep == self.hot]

    def load(self, rank, step):
        if not self.active[step]:
            return 1.0
        rest = max(1, self.layout.ep - 1)
        return 1.0 + self.size if rank in self.ranks else 1.0 - self.size / rest


class Copies(Fault):
    kind, cause, sizes = "copies", "copy", (3.0, 10.0)

    def copy(self, rank, step):
        return self.size if self.on(rank, step) else 1.0


class CpuContention(Fault):
    """Other processes on a host. Every launch of its ranks takes longer, and some launches take much longer."""
    kind, cause, level, sizes = "cpu", "cpu_contention", "host", (5.0, 15.0, 40.0)

    def put(self, place):
        self.hosts = [place % self.layout.hosts]
        self.ranks = self.layout.ranks_of_host(self.hosts[0])
        self.streams = {r: stream("cpu", r) for r in self.ranks}

    def think(self, rank, step):
        if not self.on(rank, step):
            return 0.0
        return self.streams[rank].expovariate(1.0 / (self.size * 1e3))


class Checkpoint(Fault):
    """Every few steps, all ranks or rank 0 copy their weights to the host and write them. `size` is a
    fraction of the step."""
    kind, cause, level, sizes = "checkpoint", "checkpoint", "job", (0.5, 1.5)
    step_ns = 1e8

    def put(self, place):
        self.alone = place % 2 == 0
        self.period = 3 + place % 2
        self.ranks = [0] if self.alone else list(range(self.layout.world))

    def stalls(self, rank, step):
        if not self.on(rank, step) or step % self.period != self.period - 1:
            return ()
        return ((1.0, self.size * self.step_ns, "checkpoint"),)


class Common(Fault):
    """All devices are slower from the middle of the window."""
    kind, cause, level, sizes = "common", "common", "job", (0.10, 0.25)

    def put(self, place):
        self.ranks = list(range(self.layout.world))
        self.active = [s > self.steps // 2 for s in range(self.steps)]

    def compute(self, rank, step, kernel_class, batch):
        return 1.0 + (0.25 * self.size if kernel_class.memory else self.size) if self.active[step] else 1.0


KINDS = {f.kind: f for f in (SlowGpu, SlowMemory, Contention, HostGap, Pause, PauseEverywhere, Loader, Allocator, SlowLink, SlowGroup, SlowNic,
                             Congestion, Stage, Sequence, Experts, Copies, CpuContention, Checkpoint, Common)}
