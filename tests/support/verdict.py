"""Holds a report against what was really injected: the same rule for the demo, the evaluation and the tests."""

# Which causes of a report are right for which injected fault.
CAUSES = {
    "slow_gpu": {"gpu_clock", "gpu_memory", "contention"},
    "host_stall": {"host_pause", "data_loader", "host_launch", "host_allocator", "cpu_contention"},
    "slow_link": {"slow_link", "congestion"},
    "copy": {"copy"},
}


def injected_text(truth):
    fault = truth["fault"]
    if fault["kind"] == "none":
        return "none"
    return f"{fault['kind']} on rank {fault['rank']}, {truth['lost_ns_per_step'] / 1e6:.2f} ms per step"


def reported_text(report):
    if not report["stragglers"]:
        return "none"
    first = report["stragglers"][0]
    ranks = ",".join(map(str, first["ranks"]))
    return f"{first['cause']} on rank {ranks}, {first['gain_ns_per_step'] / 1e6:.2f} ms per step ({first['verdict']})"


def right_rank(report, truth):
    """The first straggler is the rank that has the fault, alone; or nobody is listed and nobody has one."""
    fault = truth["fault"]
    if fault["kind"] == "none":
        return not report["stragglers"]
    return bool(report["stragglers"]) and report["stragglers"][0]["ranks"] == [fault["rank"]]


def right_cause(report, truth):
    fault = truth["fault"]
    if fault["kind"] == "none":
        return not report["stragglers"]
    return bool(report["stragglers"]) and report["stragglers"][0]["cause"] in CAUSES[fault["kind"]]


def gain_error(report, truth):
    """Relative error of the culprit's ms per step against the same seed without the fault; None for healthy jobs."""
    if truth["fault"]["kind"] == "none" or not report["stragglers"]:
        return None
    return report["stragglers"][0]["gain_ns_per_step"] / truth["lost_ns_per_step"] - 1
