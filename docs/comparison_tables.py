#!/usr/bin/env python3
"""Prints the tables of docs/comparison.md: Lockstep's numbers, measured now, beside those recorded of other tools.

usage: docs/comparison_tables.py LOCKSTEP_PROGRAM [SHARED_FOLDER]

SHARED_FOLDER (../shared beside the repository) holds traces/ and reference/; neither is part of the repository.
"""
import json
import pathlib
import subprocess
import sys

SETS = ["param_dlrm_8rank", "bert_ddp_2rank", "resnet50_ddp_2rank", "v100_2020_allreduce", "a100_collective_args",
        "ns_timestamps", "v100_step_pair_rank1", "v100_step_pair_rank3"]


def us(value):
    text = f"{value:,.3f}"
    return text[:-4] if text.endswith(".000") else text


def row(cells):
    print("| " + " | ".join(str(c) for c in cells) + " |")


def table(head):
    row(head)
    row(["---"] * len(head))


def hta_rank(results, mode, rank):
    breakdown = results[mode]["temporal_breakdown"][rank]
    overlap = results[mode]["comm_comp_overlap_pctg"][rank]["comp_comm_overlap_pctg"]
    return breakdown["compute_time(us)"], breakdown["idle_time(us)"], overlap


def percent(value):
    return "–" if value is None else f"{value:.2f}"


def main():
    program = sys.argv[1]
    root = pathlib.Path(__file__).resolve().parent.parent
    shared = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else root.parent / "shared"
    reference = {name: json.loads((shared / "reference" / f"{name}.json").read_text())["sets"]
                 for name in ("exact", "hta", "tb_plugin", "tracelens")}
    reports = {}
    for name in SETS:
        out = subprocess.run([program, "analyze", str(shared / "traces" / name), "--format", "json"],
                             capture_output=True, text=True, check=True).stdout
        reports[name] = json.loads(out)

    print("### Compute, idle, overlap (µs; overlap in % of communication)\n")
    table(["set", "rank", "compute", "idle", "overlap", "HTA, as installed: compute", "idle", "overlap",
           "HTA, last step kept: compute", "idle", "overlap"])
    for name in SETS:
        for i, rank in enumerate(reports[name]["ranks"]):
            fraction = rank["overlap_fraction"]
            ours = [us(rank["compute_ns"] / 1000), us(rank["idle_ns"] / 1000), percent(None if fraction is None else 100 * fraction)]
            theirs = []
            for mode in ("default_drop_last_step", "include_last_step"):
                compute, idle, overlap = hta_rank(reference["hta"][name], mode, i)
                theirs += [us(compute), us(idle), percent(overlap)]
            row([name, rank["rank"]] + ours + theirs)

    print("\n### Communication (µs)\n")
    table(["set", "rank", "communication", "exact reference", "tb_plugin, sum of its steps", "tb_plugin's steps"])
    for name in SETS:
        exact = reference["exact"][name]["ranks"]
        workers = list(reference["tb_plugin"].get(name, {}).get("workers", {}).values())
        for i, rank in enumerate(reports[name]["ranks"]):
            shown, steps = "not run", "–"
            if i < len(workers):
                steps = len(workers[i]["steps"])
                shown = us(sum(s["communication"] + s["overlap"] for s in workers[i]["overlap_per_step_us"]))
            row([name, rank["rank"], us(rank["communication_ns"] / 1000), us(exact[i]["comm_union_us"]), shown, steps])

    print("\n### Waiting on DLRM, 8 ranks (µs)\n")
    table(["rank", "wait", "by aligned starts", "reference, latest start", "TraceLens", "others wait for it"])
    report = reports["param_dlrm_8rank"]
    exact = reference["exact"]["param_dlrm_8rank"]["per_rank_latest_start_method"]
    lens = reference["tracelens"]["param_dlrm_8rank"]["rows"]
    for i, rank in enumerate(report["ranks"]):
        waited = sum(r[f"rank_{i}_wait_time"] for r in lens)
        caused = rank.get("caused_wait_ns")
        row([i, us(rank["wait_ns"] / 1000), us(rank["wait_by_clock_ns"] / 1000), us(exact[i]["sync_us"]), us(waited),
             "–" if caused is None else us(caused / 1000)])


if __name__ == "__main__":
    main()
