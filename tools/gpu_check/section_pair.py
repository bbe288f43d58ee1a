"""Two ranks, one of them late."""
import json
import socket
import time

import captures
from helpers import why
from session import Session


def start_simulated_pair(setup, session, seconds):
    rank = [str(setup.simulate / "lockstep-sim-rank"), "--duration", f"{seconds}s", "--truth", str(session.folder / "truth"), "--fault",
            "slow_gpu", "--fault-rank", "1", "--fault-size", "0.3"]
    session.workload("ranks", ["mpiexec", "--oversubscribe", "-n", "2", *session.under_run(), *rank],
                     env={"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})


def start_nccl_pair(setup, session, seconds):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    for rank in (0, 1):
        command = setup.script("nccl_pair.py", "--seconds", seconds, "--log", session.folder / f"rank{rank}.jsonl")
        session.workload(f"rank{rank}", command, session.under_run(), {
            "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port), "LOCKSTEP_JOB": "gpu-check-pair"})


def pair(setup, table):
    """Two ranks, one late: NCCL's plugin, matching and the verdict. On one GPU NCCL may refuse, so this is told as facts."""
    seconds = 40
    with Session(setup, "pair") as session:
        if setup.simulate:
            start_simulated_pair(setup, session, seconds)
        else:
            start_nccl_pair(setup, session, seconds)
        first = session.workloads[0]
        ranks, reason = session.wait_for_ranks(first, 2, 45)
        table.fact("ranks", reason or f"{[(r['rank'], r['rank_source']) for r in ranks]}")
        if len(ranks) < 2 or (not setup.simulate and not first.wait_for("step", 20, 45)):
            table.check("two NCCL ranks share the GPU", None, f"{first.said()}; {[w.events('ready') for w in session.workloads]}", "")
            return
        if setup.simulate:
            time.sleep(1)
        code, folder, said = session.trace("capture", "--duration", "2s")
        table.check("both are captured", code == 0, f"exit {code}: {why(said)}", "exit 0")
        if setup.simulate and code == 0:
            first.stop()
            for rank in (0, 1):
                truth = json.loads((session.folder / "truth" / f"truth-{rank}.json").read_text())
                captures.check_truth(table, captures.Capture(folder, rank), truth, f"rank {rank}")
        if code == 0:
            report = json.loads((folder / "report.json").read_text())
            table.fact("matching", report["capture"]["matching"])
            table.fact("losses", report["capture"]["losses"])
            manifest = json.loads((folder / "records" / "manifest.json").read_text())
            table.fact("records", [file["rows"] for process in manifest["processes"] for file in process["files"]])
            table.fact("report", (folder / "report.txt").read_text().splitlines()[0])
            named = report["stragglers"][0] if report["stragglers"] else {"ranks": []}
            # Two equal peers are never told apart by guess: then both are listed, the slower one first, and nothing is decided.
            alone = named["ranks"] == [1]
            pair = named["ranks"] == [1, 0] and named["verdict"] == "undecided"
            table.check("the late rank is named", alone or pair, {k: named.get(k) for k in ("ranks", "cause", "verdict")}, "rank 1, or undecided between both, rank 1 first")
