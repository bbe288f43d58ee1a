"""Compares a report with the injected fault, by the same rule for the demo, the evaluation and the tests."""

# The cause that counts as right for each injected fault.
CAUSES = {
    "slow_gpu": {"gpu_clock"},
    # The host stands still before its first launch. Nothing in the capture says that it loads data.
    "host_stall": {"host_pause"},
    "slow_link": {"slow_link"},
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
    """Returns whether the first straggler is exactly the rank with the fault. For a healthy job, no straggler
    may be listed."""
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
    """Returns the relative error of the culprit's ms per step against a run of the same seed without the
    fault. None if healthy."""
    if truth["fault"]["kind"] == "none" or not report["stragglers"]:
        return None
    return report["stragglers"][0]["gain_ns_per_step"] / truth["lost_ns_per_step"] - 1
