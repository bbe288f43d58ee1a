"""The jobs of an evaluation. The parameters of each job are drawn from the seed of the run."""
from faults import KINDS
from job import SHAPES, possible
from layout import Layout
from noise import stream

FINE_TOPOLOGIES = ("dp", "fsdp", "hybrid", "pipeline", "interleaved", "experts", "context")
COARSE_TOPOLOGIES = ("hybrid", "pipeline", "interleaved", "fsdp", "context", "experts")
# Faults with one responsible rank, host, stage or group.
PLACED = ("slow_gpu", "slow_memory", "host_gap", "loader", "link", "link_group", "nic", "stage", "pause", "allocator", "copies", "cpu", "contention")


def _noise(rng):
    return rng.choices((0.005, 0.01, 0.03), (4, 4, 2))[0]


def _steps(noise, ranks):
    """With noise of 3 %, effects of a few percent need 20 steps. Jobs of 64 ranks get fewer, because their
    simulation is slow."""
    return 10 if noise < 0.02 else 20 if ranks < 64 else 14


def _clocks(rng, job):
    job["clock_ms"] = rng.choice((0.0, 0.1, 1.0))
    job["drift_ppm"] = rng.choice((0.0, 5.0, 50.0))


def _fault(rng, kinds, topology, ranks, sizes=None, whole=False):
    """Returns a fault of one of these kinds whose place the timeline determines. Returns None if it finds
    none."""
    dp, pp, tp, cp, ep, _ = SHAPES[topology][ranks]
    layout = Layout(dp, pp, tp, cp, ep)
    for _ in range(40):
        kind = rng.choice(kinds)
        if not possible(kind, topology, ranks):
            continue
        choices = (sizes or {}).get(kind, KINDS[kind].sizes)
        size = rng.choice(choices if rng.random() < 0.6 else choices[-1:])  # a fault without cost cannot be found
        span = rng.choices(("whole", "episode", "intermittent"), (7, 2, 1))[0]
        place = rng.randrange(ranks)
        if whole or kind in ("common", "checkpoint", "pause", "pause_everywhere", "allocator"):
            span = "whole"
        if KINDS[kind](0, layout, 2, size, place, "whole").place_known():
            return (kind, size, place, span)
    return None


def _host_shows(kinds):
    """Returns parameters that make host faults visible. A host that is far ahead of its device hides its own
    delays."""
    if "host_gap" in kinds or "cpu" in kinds:
        return {"sync": True, "host_bound": True}
    if "copies" in kinds:
        return {"sync": True, "input_factor": 4}
    return {"sync": True} if set(kinds) & {"loader", "pause", "allocator", "pause_everywhere"} else {}


def small(seed, count):
    """Yields jobs with every kind of fault on 8 to 64 ranks, with an op per kernel."""
    for i in range(count):
        rng = stream(seed, "small", i)
        # Every kind is equally frequent. Some jobs get a second fault.
        kinds = list(KINDS)
        kind = kinds[i % len(kinds)]
        fault = None
        while fault is None:
            topology, ranks = rng.choice(FINE_TOPOLOGIES), rng.choice((8, 16, 16, 64))
            fault = _fault(rng, (kind,), topology, ranks)
        noise = _noise(rng)
        faults = [fault]
        pair = rng.random()
        if kind == "slow_gpu" and pair < 0.25:
            faults.append((kind, faults[0][1], (faults[0][2] + ranks // 2 + 1) % ranks, faults[0][3]))
        elif pair > 0.9:
            faults.append(_fault(rng, ("slow_gpu", "loader"), topology, ranks))
        job = {"seed": rng.randrange(1 << 30), "topology": topology, "ranks": ranks, "noise": noise, "steps": _steps(noise, ranks), "faults": faults,
               "metadata": rng.choice(("nccl", "nccl", "seq", "group")), "loss": rng.choice((0.0, 0.0, 0.0, 0.001)),
               "missing": rng.choice((0.0,) * 12 + (0.1,))}
        _clocks(rng, job)
        job["parameters"] = _host_shows([f[0] for f in faults])
        yield job


def thousand(seed, count, ranks=1024):
    for i in range(count):
        rng = stream(seed, "thousand", i, ranks)
        noise = rng.choice((0.005, 0.01, 0.01))
        kinds = ("slow_gpu", "slow_gpu", "slow_gpu", "loader", "host_gap", "link", "link_group", "nic", "stage", "pause")
        fault = None
        while fault is None:
            topology = rng.choice(COARSE_TOPOLOGIES) if ranks == 1024 else "hybrid"
            fault = _fault(rng, kinds, topology, ranks, {"slow_gpu": (0.05, 0.1, 0.2, 0.3), "host_gap": (60.0, 150.0, 400.0)})
        job = {"seed": rng.randrange(1 << 30), "topology": topology, "ranks": ranks, "noise": noise, "steps": 6, "faults": [fault],
               "metadata": "nccl", "loss": 0.0, "missing": 0.0, "parameters": {**_host_shows([fault[0]]), "sync": True}}
        _clocks(rng, job)
        yield job


def healthy(seed, count):
    for i in range(count):
        rng = stream(seed, "healthy", i)
        ranks = rng.choice((8, 16, 64, 64) if i % 10 else (1024,))
        noise = _noise(rng)
        job = {"seed": rng.randrange(1 << 30), "topology": rng.choice(FINE_TOPOLOGIES if ranks <= 64 else COARSE_TOPOLOGIES), "ranks": ranks,
               "noise": noise, "steps": 10 if ranks <= 64 else 6, "faults": [], "metadata": rng.choice(("nccl", "seq", "group")), "loss": 0.0,
               "missing": 0.0}
        _clocks(rng, job)
        yield job


def pairs(seed, count):
    """Yields jobs with one fault, for a comparison of the predicted gain with the same seed without the
    fault."""
    kinds = ("slow_gpu", "slow_gpu", "slow_memory", "host_gap", "loader", "copies", "link", "stage", "link_group")
    for i in range(count):
        rng = stream(seed, "pairs", i)
        fault, noise = None, rng.choice((0.005, 0.01))
        while fault is None:
            topology, ranks = rng.choice(FINE_TOPOLOGIES), rng.choice((8, 16))
            fault = _fault(rng, kinds, topology, ranks, {"slow_gpu": (0.05, 0.1, 0.2, 0.3), "host_gap": (2.0, 20.0)}, whole=True)
        yield {"seed": rng.randrange(1 << 30), "topology": topology, "ranks": ranks, "noise": noise, "steps": 10, "faults": [fault],
               "metadata": "nccl", "loss": 0.0, "missing": 0.0, "clock_ms": 0.1, "drift_ppm": 5.0, "parameters": {"sync": rng.random() < 0.7, **_host_shows([fault[0]])}}


def links(seed, count):
    """Yields data-parallel jobs with a link that is slow in all steps. All ranks share the only group, so no
    other group shows what its links should do."""
    for i in range(count):
        rng = stream(seed, "links", i)
        fault = (rng.choice(("link", "link_group", "nic")), rng.choice((1.2, 2.0, 5.0)), rng.randrange(16), "whole")
        yield {"seed": rng.randrange(1 << 30), "topology": "dp", "ranks": 16, "noise": 0.01, "steps": 12, "faults": [fault], "metadata": "nccl",
               "loss": 0.0, "missing": 0.0}


def two(seed, count):
    """Yields jobs with two faults of different ranks, hosts, stages or groups."""
    for i in range(count):
        rng = stream(seed, "two", i)
        noise, faults = rng.choice((0.005, 0.01)), []
        while len(faults) < 2:
            topology, ranks = rng.choice(FINE_TOPOLOGIES), rng.choice((8, 16))
            kinds = [rng.choice(PLACED), rng.choice(PLACED)]
            kinds[1] = rng.choice((kinds[0], kinds[1], kinds[1]))  # a third of them of one kind
            faults = [_fault(rng, (kind,), topology, ranks, {"slow_gpu": (0.1, 0.2, 0.3), "host_gap": (2.0, 20.0)}, whole=True) for kind in kinds]
            if None in faults or faults[0][2] % ranks == faults[1][2] % ranks:
                faults = []
        yield {"seed": rng.randrange(1 << 30), "topology": topology, "ranks": ranks, "noise": noise, "steps": 10, "faults": faults,
               "metadata": "nccl", "loss": 0.0, "missing": 0.0, "clock_ms": 0.1, "drift_ppm": 5.0, "parameters": _host_shows([f[0] for f in faults])}


def clocks(seed, count):
    for i in range(count):
        rng = stream(seed, "clocks", i)
        noise = rng.choice((0.005, 0.01))
        stepped = i % 8 == 7
        yield {"seed": rng.randrange(1 << 30), "topology": rng.choice(FINE_TOPOLOGIES), "ranks": rng.choice((16, 64)), "noise": noise, "steps": 8,
               "faults": [], "metadata": "nccl", "loss": 0.0, "missing": 0.0, "clock_ms": (1.0, 1.0, 1.0, 0.1, 50.0)[i % 5],
               "drift_ppm": rng.choice((0.0, 5.0, 50.0)), "clock_step_ms": rng.uniform(0.5, 5.0) if stepped else 0.0, "collectives": True}


def matching(seed, count):
    for i in range(count):
        rng = stream(seed, "matching", i)
        unnamed = i % 2 == 0
        yield {"seed": rng.randrange(1 << 30), "topology": rng.choice(FINE_TOPOLOGIES), "ranks": rng.choice((8, 16, 64)), "noise": 0.01, "steps": 8,
               "faults": [_fault(rng, ("slow_gpu",), "dp", 8, {"slow_gpu": (0.1, 0.3)})] if rng.random() < 0.5 else [],
               "metadata": "none" if unnamed else rng.choice(("nccl", "seq", "group")), "loss": 0.0 if unnamed else 0.02, "missing": 0.0,
               "clock_ms": 1.0, "drift_ppm": 5.0, "collectives": True}


def speed(seed, large):
    for ranks in (1024, 10000) if large else (1024,):
        rng = stream(seed, "speed", ranks)
        yield {"seed": rng.randrange(1 << 30), "topology": "hybrid", "ranks": ranks, "noise": 0.01, "steps": 5, "faults": [("slow_gpu", 0.1, ranks // 3, "whole")],
               "metadata": "nccl", "loss": 0.0, "missing": 0.0, "clock_ms": 0.1, "drift_ppm": 5.0, "parameters": {"microbatches": 4 if ranks == 1024 else 3},
               "timed": True}
