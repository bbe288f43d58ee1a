#!/usr/bin/env python3
"""Writes docs/first-screens.md: the screen of every recorded job and of six live ones, with a sentence on why a
reader of its origin would agree.

usage: first_screens.py [--binaries DIR] [--recordings DIR] [--only NAME]... [-o FILE]"""
import argparse
import gzip
import json
import os
import pathlib
import pty
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
sys.path.insert(0, str(ROOT / "tests" / "scenario"))
from bytedance import convert, meta_of  # noqa: E402
from live_job import LiveJob  # noqa: E402

COLUMNS = 100
# Recording, what its origin says of it.
RECORDINGS = {
    "resnet50_ddp_2rank": "Its GPUs compute for 5 % of the step, and both hosts spend 70 % in the data loader's `__next__`.",
    "tb_plugin_samples/resnet50_num_workers_0/worker0.1623143089861.pt.trace.json.gz":
        "TensorBoard's plugin ships it as the example of a job that waits for its data loader.",
    "tb_plugin_samples/resnet50_num_workers_4/worker0.1623212756351.pt.trace.json.gz":
        "The same job with four loader workers: the plugin shows no time in the data loader any more. What remains is the host.",
    "bert_ddp_2rank": "Two steps, so there is no verdict. The gradients' all-reduce takes half of them.",
    "param_dlrm_8rank": "One step. Its authors name rank 7, for which 96.5 % of the communication time is waiting.",
    "nsys_h100_2gpu": "Two GPUs that exchange messages. No verdict is published; its GPUs idle between short kernels while the hosts launch.",
    "a100_collective_args": "One rank of two, so no communication can be matched. Its GPU idles between launches.",
    "v100_2020_allreduce": "One rank of two, so no communication can be matched.",
    "ns_timestamps": "One rank of a job, as an example for nanosecond time stamps.",
    "v100_step_pair_rank1": "One rank of a job, so no communication can be matched. Its copies have no kernel beside them.",
    "v100_step_pair_rank3": "One rank of a job, so no communication can be matched. Its GPU waits for launches.",
    "independent_jobs/a_healthy_pp4": "Its truth is healthy. Four microbatches in four stages leave 3/7 of the step idle by design.",
    "independent_jobs/b_loader_dp8": "Its truth: the data loader of rank 6, 8.98 ms.",
    "independent_jobs/c_slow_gpu_no_metadata": "Its truth: the GPU of rank 2, 4.57 ms.",
    "independent_jobs/d_healthy_touching": "Its truth is healthy.",
    "independent_jobs/e_slow_link": "Its truth: the link of rank 5, 2.32 ms.",
    "independent_jobs/f_two_gpus_dropped": "Its truth: the GPUs of ranks 0 and 4, together 2.06 ms.",
    "independent_jobs/g_slow_gpu_pp4": "Its truth: the GPU of rank 9, 0.54 ms.",
    "independent_jobs/h_healthy_interleaved": "Its truth is healthy.",
    "independent_jobs/i_slow_gpu_1f1b": "Its truth: the GPU of rank 3, 4.70 ms.",
    "independent_jobs/j_moe_slow_link": "Its truth: the link of rank 3, 28.75 ms.",
    "independent_jobs/k_moe_hot_expert": "Its truth: the expert of rank 3, 20.13 ms.",
    "independent_jobs/l_fsdp_contention": "Its truth: the GPU of rank 3, 3.46 ms.",
    "independent_jobs/m_hsdp_loader": "Its truth: the data loader of rank 5, 5.95 ms.",
    "independent_jobs/n_decode_gc": "Its truth: another rank pauses each time, 3.85 ms of 6.7.",
    "independent_jobs/o_input_bound": "Its truth: all ranks wait 12.0 of 42.1 ms for input.",
}
BYTEDANCE = {
    "bytedance_straggler": ("ST", "Its authors blame the last stage."),
    "bytedance_fail_slow": ("AR", "Its authors blame worker 0, without which the step would be half as long."),
}


def screen(command, env=None):
    """Returns what the command prints on a terminal."""
    parent, child = pty.openpty()
    size = f"stty cols {COLUMNS} rows 60; exec \"$@\""
    with subprocess.Popen(["sh", "-c", size, "sh", *map(str, command)], stdin=child, stdout=child, stderr=subprocess.DEVNULL,
                          env={**(env or os.environ), "NO_COLOR": "1"}) as process:
        os.close(child)
        out = b""
        while True:
            try:
                part = os.read(parent, 65536)
            except OSError:
                break
            if not part:
                break
            out += part
    os.close(parent)
    if process.returncode not in (0, 3, 7):
        raise RuntimeError(f"{command} ended with {process.returncode}: {out.decode()}")
    return out.decode().replace("\r", "")


def input_for_all(scenario):
    """All hosts wait 30 ms in the data loader before each step."""
    lines, names = scenario.splitlines(), 0
    names = sum(line.startswith("name ") for line in lines)
    last = max(i for i, line in enumerate(lines) if line.startswith("name "))
    lines.insert(last + 1, "name enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__")
    out, fresh = [], False
    for line in lines:
        if line.startswith("rank "):
            fresh = True
        if fresh and line.startswith("call t0 "):
            out += [f"push t0 n{names} gap=0", "pop t0 gap=30000000"]
            fresh = False
        out.append(line)
    return "\n".join(out) + "\n"


def slow_gpus(scenario, ranks, factor):
    out, rank = [], -1
    for line in scenario.splitlines():
        rank += line.startswith("rank ")
        if rank in ranks and line.startswith("kernel "):
            line = re.sub(r"own=(\d+)", lambda m: f"own={int(int(m[1]) * factor)}", line)
        out.append(line)
    return "\n".join(out) + "\n"


# Title, options of the ranks, change of the scenario, the fault.
LIVE = [
    ("slow GPU", ["--fault", "slow_gpu", "--fault-rank", 5, "--fault-size", 0.2], None, "The GPU of rank 5 was slowed by a fifth of the step."),
    ("input on all ranks", [], input_for_all, "All hosts wait 30 ms in the data loader before each step."),
    ("slow link, data parallel", ["--dp", 8, "--tp", 1, "--pp", 1, "--fault", "slow_link", "--fault-rank", 2, "--fault-size", 0.2], None,
     "All ranks share one communicator, so its slow link shows on all ranks alike. It cannot be named, and the line says so."),
    ("pauses", ["--pause-probability", 0.1], None, "Each rank's host pauses for about 20 ms in a tenth of the steps."),
    ("healthy", [], None, "Nothing was slowed."),
    ("two slow GPUs", [], lambda s: slow_gpus(s, {2, 6}, 1.2), "The kernels of ranks 2 and 6 take 1.2 times as long."),
]


def bytedance(folder, code, work):
    """Writes the job's list of operations as a timeline, and returns its path."""
    sizes = meta_of((folder / f"meta-{code}.yaml").read_text())
    events = json.loads(gzip.decompress((folder / f"timeline-{code}.json.gz").read_bytes()))
    path = work / f"{folder.name}.timeline"
    path.write_text("\n".join(convert(events, sizes)) + "\n")
    return path


def live(binaries, work, options, change):
    arguments = ["--forever", *options]
    if change:
        scenario = work / "job.scenario"
        subprocess.run([binaries / "lockstep-sim-rank", "--ranks", "8", "--write-scenario", scenario], check=True, capture_output=True)
        scenario.write_text(change(scenario.read_text()))
        arguments += ["--scenario", scenario]
    with LiveJob(binaries, work / "job", rank_args=arguments) as job:
        job.wait_for_ranks()
        done = job.trace(work / "capture", "--duration", "3s")
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        return screen([binaries / "lockstep", "report", work / "capture"], job.env)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=pathlib.Path, default=ROOT / "build" / "bin")
    parser.add_argument("--recordings", type=pathlib.Path, default=ROOT.parent / "shared" / "traces")
    parser.add_argument("--only", action="append", help="recordings or live jobs whose name contains this")
    parser.add_argument("-o", type=pathlib.Path, default=ROOT / "docs" / "first-screens.md")
    args = parser.parse_args()
    wanted = lambda name: not args.only or any(o in name for o in args.only)  # noqa: E731
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    parts = [f"""# First screens

The screen that the person on call sees, for each recorded job that the tests use and for six live jobs of simulated ranks, on a
terminal of {COLUMNS} columns. Each has a sentence on what is known of the job. [shared-losses.md](analysis/shared-losses.md#the-first-line)
defines the first word. `tools/dev/first_screens.py` wrote this page at commit {commit}.
"""]

    def add(name, why, text):
        print(name, "|", text.splitlines()[0], flush=True)
        for folder in (work, os.path.relpath(args.recordings)):
            text = text.replace(f"{folder}/", "")
        parts.append(f"## {name}\n\n{why}\n\n```\n{text.rstrip()}\n```\n")

    with tempfile.TemporaryDirectory(prefix="lockstep-screens-") as temporary:
        work = pathlib.Path(temporary)
        for name, why in RECORDINGS.items():
            if wanted(name) and (args.recordings / name).exists():
                add(name.split("/worker0")[0], why, screen([args.binaries / "lockstep", "analyze", os.path.relpath(args.recordings / name)]))
        for name, (code, why) in BYTEDANCE.items():
            if not wanted(name) or not (args.recordings / name).exists():
                continue
            add(name, why, screen([args.binaries / "lockstep", "analyze", bytedance(args.recordings / name, code, work)]))
        for number, (name, options, change, why) in enumerate(LIVE):
            if wanted(name):
                place = work / str(number)
                place.mkdir()
                add("live: " + name, why, live(args.binaries, place, options, change))
    args.o.write_text("\n".join(parts))


if __name__ == "__main__":
    main()
