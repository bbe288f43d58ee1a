#!/usr/bin/env python3
"""Tests the report of jobs that another generator made, with the tool and the truth beside them (../shared).

usage: independent_jobs_test.py LOCKSTEP"""
import pathlib
import subprocess
import sys

SHARED = pathlib.Path(__file__).resolve().parents[3] / "shared"
# Rank, cause, gain, step and clocks of these are right, or the shared loss (docs/evaluation.md).
RIGHT = {"a_healthy_pp4", "b_loader_dp8", "c_slow_gpu_no_metadata", "d_healthy_touching", "e_slow_link", "f_two_gpus_dropped", "g_slow_gpu_pp4",
         "h_healthy_interleaved", "i_slow_gpu_1f1b", "j_moe_slow_link", "k_moe_hot_expert",
         "l_fsdp_contention", "m_hsdp_loader", "n_decode_gc", "o_input_bound"}


def main() -> int:
    tool = SHARED / "tools" / "independent.py"
    if not tool.exists():
        print(f"left out: {tool} does not exist, so there are no jobs of another generator")
        return 0
    output = subprocess.run([sys.executable, str(tool), sys.argv[1], str(SHARED)], capture_output=True, text=True).stdout
    print(output, end="")
    right = {line.split()[0] for line in output.splitlines() if line.split()[1:2] == ["right"]}
    for name in sorted(RIGHT - right):
        print(f"{name} was right before")
    for name in sorted(right - RIGHT):
        print(f"{name} is right now: add it to this test and to docs/evaluation.md")
    return 0 if right == RIGHT else 1


if __name__ == "__main__":
    sys.exit(main())
