"""One job: parameters drawn from a seed, and simulations with and without a fault from the same random draws."""
import math

from engine import Engine, Launch, Mark, Rank
from faults import KINDS, HostGap
from layout import Layout
from noise import Noise, stream
from workload import Collectives, Program

# Shapes by name and number of ranks: data, pipeline, tensor, context, expert parallelism, chunks per stage.
SHAPES = {
    "dp": {8: (8, 1, 1, 1, 1, 1), 16: (16, 1, 1, 1, 1, 1), 64: (64, 1, 1, 1, 1, 1), 512: (512, 1, 1, 1, 1, 1), 1024: (1024, 1, 1, 1, 1, 1)},
    "fsdp": {8: (8, 1, 1, 1, 1, 1), 16: (16, 1, 1, 1, 1, 1), 64: (64, 1, 1, 1, 1, 1), 512: (512, 1, 1, 1, 1, 1), 1024: (1024, 1, 1, 1, 1, 1)},
    "hybrid": {8: (2, 2, 2, 1, 1, 1), 16: (4, 2, 2, 1, 1, 1), 64: (4, 4, 4, 1, 1, 1), 512: (16, 4, 8, 1, 1, 1), 1024: (32, 4, 8, 1, 1, 1),
               4096: (128, 4, 8, 1, 1, 1), 10000: (250, 5, 8, 1, 1, 1)},
    "pipeline": {8: (2, 4, 1, 1, 1, 1), 16: (4, 4, 1, 1, 1, 1), 64: (2, 8, 4, 1, 1, 1), 512: (16, 8, 4, 1, 1, 1), 1024: (16, 8, 8, 1, 1, 1)},
    "interleaved": {8: (2, 4, 1, 1, 1, 2), 16: (4, 4, 1, 1, 1, 2), 64: (4, 4, 4, 1, 1, 2), 512: (16, 4, 8, 1, 1, 2), 1024: (32, 4, 8, 1, 1, 2)},
    "experts": {8: (8, 1, 1, 1, 4, 1), 16: (16, 1, 1, 1, 8, 1), 64: (64, 1, 1, 1, 8, 1), 512: (128, 4, 1, 1, 8, 1), 1024: (256, 4, 1, 1, 8, 1)},
    "context": {8: (2, 1, 2, 2, 1, 1), 16: (2, 1, 2, 4, 1, 1), 64: (4, 1, 4, 4, 1, 1), 512: (16, 1, 8, 4, 1, 1), 1024: (16, 2, 8, 4, 1, 1)},
}
FINE_UP_TO = 64
# Launches of a forward and a backward pass, with events. Measured on the programs of workload.py as an order
# of magnitude.
LAUNCHES_PER_LAYER = 15
# Topologies in which a fault has something to act on.
NEEDS = {"stage": ("pipeline", "interleaved", "hybrid"), "experts": ("experts",), "link_group": ("hybrid", "experts", "context", "interleaved")}
NEEDS_HOSTS = ("nic", "congestion", "cpu")


def possible(kind, topology, ranks):
    if kind in NEEDS and topology not in NEEDS[kind]:
        return False
    return kind not in NEEDS_HOSTS or ranks > 8


def draw(seed, topology, ranks, steps, noise, fine=None):
    """Draws the parameters of a job. Times are in nanoseconds, bandwidths in bytes per second."""
    rng = stream(seed, "parameters")
    fine = ranks <= FINE_UP_TO if fine is None else fine
    dp, pp, tp, cp, ep, chunks = SHAPES[topology][ranks]
    p = {"seed": seed, "topology": topology, "ranks": ranks, "fine": fine, "steps": steps, "noise": noise, "chunks": chunks,
         "dp": dp, "pp": pp, "tp": tp, "cp": cp, "ep": ep, "first_step": rng.randrange(10, 5000)}
    unit = 1e3 if fine else 1e5
    p["gemm"], p["attention"], p["element"] = rng.uniform(80, 250) * unit, rng.uniform(60, 200) * unit, rng.uniform(20, 60) * unit
    p["layers"] = 1 if not fine else rng.choice((6, 10)) if topology == "fsdp" else rng.choice((2, 3)) if pp == 1 or ranks < 64 else 1
    p["microbatches"] = (pp if chunks > 1 or not fine or ranks >= 64 else max(2, pp) * rng.choice((1, 2))) if pp > 1 else 2
    p["optimizer"] = rng.uniform(0.5, 2.0) * p["gemm"]
    p["inner_bandwidth"], p["outer_bandwidth"] = rng.uniform(150e9, 350e9), rng.uniform(20e9, 48e9)
    p["inner_latency"], p["outer_latency"] = rng.uniform(4e3, 9e3), rng.uniform(9e3, 20e3)
    layer = 3.6 * p["gemm"] + p["attention"] + 2.0 * p["element"]

    def size(share, between):
        """Returns the bytes whose transfer takes this share of a layer's forward pass."""
        bandwidth = p["outer_bandwidth"] if between else p["inner_bandwidth"]
        return int(share * layer * 1e-9 * bandwidth / 1024) * 1024 + 1024

    outside = ranks > 8
    p["tp_bytes"] = size(rng.uniform(0.06, 0.2), tp > 8)
    p["cp_bytes"] = size(rng.uniform(0.05, 0.15), tp * cp > 8)
    p["ep_bytes"] = size(rng.uniform(0.1, 0.3), ep * tp > 8 or (topology == "experts" and False))
    p["pp_bytes"] = size(rng.uniform(0.02, 0.06), outside)
    p["dp_bytes"] = size(rng.uniform(0.3, 1.2), outside and dp > 1)
    p["buffered"] = rng.choice((0, 4 << 20, 512 << 20))
    p["recompute"] = rng.random() < 0.25
    p["sharded"] = rng.random() < 0.5 and topology != "dp"
    p["even_experts"] = rng.random() < 0.5
    step = layer * p["layers"] * p["chunks"] * (p["microbatches"] + pp - 1) * 3.2
    if topology == "fsdp":
        step = layer * p["layers"] * 3.2
    p["copy_bandwidth"] = rng.uniform(12e9, 24e9)
    p["input_bytes"] = int(step * rng.uniform(0.005, 0.02) * 1e-9 * p["copy_bandwidth"])
    p["head"] = step * rng.uniform(0.001, 0.004)
    p["call"] = rng.uniform(3e3, 6e3)
    p["think"] = rng.uniform(1e3, 5e3) if fine else 0.05 * p["gemm"]
    p["sync"] = rng.random() < 0.6
    launches = LAUNCHES_PER_LAYER * p["layers"] * p["chunks"] * (p["microbatches"] if topology != "fsdp" else 1)
    # A real step has thousands of launches and a queue of a thousand. The host is therefore ahead by a
    # fraction of a step.
    p["depth"] = max(24, int(launches * rng.choice((0.2, 0.5, 1.0))))
    p["host_bound_think"] = max(p["think"], 0.9 * step / launches - p["call"])  # for jobs whose host is hardly faster than the device
    p["latency"] = rng.uniform(3e3, 7e3)
    p["slowdown"], p["comm_slowdown"] = rng.uniform(0.03, 0.12), rng.uniform(0.02, 0.15)
    p["exit_habit"], p["exit_skew"] = rng.uniform(0.0, 0.006), rng.uniform(1e3, 4e3)
    p["transfer_noise"] = max(0.004, noise)
    p["spread"], p["pause_rate"] = rng.uniform(0.0, 0.002), 0.02
    p["step_estimate"] = step
    return p


class Job:
    """`wanted`: [(kind, size, place, span)]. A size of None is drawn at random."""

    def __init__(self, parameters, wanted):
        self.parameters = p = parameters
        self.layout = Layout(p["dp"], p["pp"], p["tp"], p["cp"], p["ep"])
        self.member_of = [{r: i for i, r in enumerate(g.members)} for g in self.layout.groups]
        rng = stream(p["seed"], "where")
        self.wanted = []
        for kind, size, place, span in wanted:
            size = rng.choice(KINDS[kind].sizes) if size is None else size
            place = rng.randrange(p["ranks"]) if place is None else place
            self.wanted.append((kind, size, place, span))
        self.noise = self.collectives = None
        self.faults = [self._fault(*w) for w in self.wanted]

    def run(self, which=None):
        """Simulates the job with the faults at these indices of `wanted`. None means all of them."""
        p = self.parameters
        chosen = self.wanted if which is None else [self.wanted[i] for i in which]
        self.faults = [self._fault(*w) for w in chosen]
        self.noise = Noise(p["seed"], self.layout, p["steps"] + 1, p["noise"], p["spread"], p["pause_rate"], 1 if p["fine"] else 20)
        self.collectives = Collectives(self.layout, self.faults, p, lambda *what: stream(p["seed"], *what))
        ranks = []
        for r in range(self.layout.world):
            beside = math.prod(f.beside(r) for f in self.faults)
            ranks.append(Rank(Program(self, r).build(), p["depth"], p["slowdown"] * beside, p["latency"]))
        Engine(ranks, p["comm_slowdown"]).run()
        return Result(self, ranks)

    def _fault(self, kind, size, place, span):
        p = self.parameters
        fault = KINDS[kind](p["seed"], self.layout, p["steps"] + 1, size, place, span)
        if hasattr(fault, "step_ns"):
            fault.step_ns = p["step_estimate"]
        if isinstance(fault, HostGap):
            fault.launches = LAUNCHES_PER_LAYER * p["layers"] * p["microbatches"] * p["chunks"]
        return fault


class Result:
    """The result of a simulation: each rank's ops, calls and step marks on the true clock."""

    def __init__(self, job, ranks):
        self.job, self.faults = job, [f.describe() for f in job.faults]
        self.programs = [r.program for r in ranks]
        steps = job.parameters["steps"] + 1
        ends = [0.0] * steps
        for program in self.programs:
            for item in program:
                if type(item) is Launch and item.op.end > ends[item.op.step]:
                    ends[item.op.step] = item.op.end
        # A step lasts from the previous step's last end of device work to its own. Step 0 is a warm-up.
        self.step_ns = [ends[k] - ends[k - 1] for k in range(1, steps)]
        self.ends = ends

    def ops(self, rank):
        return [item.op for item in self.programs[rank] if type(item) is Launch]

    def marks(self, rank):
        return [item.at for item in self.programs[rank] if type(item) is Mark]
