"""Checks processes around a rank: PyTorch's launcher, an import of PyTorch that must not use CUDA, and `lockstep top`."""
import time

from evidence import last_line, run_logged
from helpers import READY_S, cuda_loop, registers, traced, why
from session import Session

# A program that chooses its GPUs after the import, as many launch scripts do. CUDA must not be in use before.
CHOOSES_LATE = """
import os, torch
os.environ["CUDA_VISIBLE_DEVICES"] = ""
print("devices", torch.cuda.device_count())
"""
# A child may use CUDA if its parent has not.
CHILD_USES_CUDA = """
import os, torch
child = os.fork()
if child == 0:
    os._exit(0 if torch.ones(8, device="cuda").sum().item() == 8 else 1)
print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def processes(setup, table):
    if not setup.has("torch"):
        table.left_out("PyTorch's launcher and import", "the simulated stack runs no PyTorch" if setup.simulate else "this Python has no PyTorch")
        return
    with Session(setup, "import") as session:
        for mode in ("auto", "cupti"):
            for name, program, answer in (("chooses-devices-late", CHOOSES_LATE, "devices 0"), ("child-uses-cuda", CHILD_USES_CUDA, "child 0")):
                code, out, err = run_logged(session.folder, f"{name}-{mode}", [*session.under_run("--mode", mode)[:-1], "--", setup.python, "-c", program],
                                            timeout=60, env={**session.env, **setup.program_env})
                table.check(f"import torch, mode {mode}: {name.replace('-', ' ')}", code == 0 and answer in out,
                            f"exit {code}: {last_line(out, err)}", answer)
    with Session(setup, "torchrun") as session:
        loop = setup.script("torch_loop.py", "--seconds", 60, "--log", session.folder / "loop.jsonl")[3:]
        workload = session.workload("loop", [setup.python, "-m", "torch.distributed.run", "--nproc-per-node", "1", "--nnodes", "1", *loop],
                                    session.under_run())
        if not registers(table, session, workload, label="torchrun: the worker reaches the daemon") or not workload.wait_for("step", 50, READY_S):
            table.check("torchrun: the worker makes steps", False, workload.output(), "steps")
            return
        time.sleep(3)
        found, _ = session.status()
        table.check("torchrun: its agent does not register", len(found) == 1, [(r["rank"], r["rank_source"], r["program"]) for r in found], "one rank")
        capture = traced(table, session, "torchrun capture", "--duration", "1s")
        if capture is not None:
            table.check("torchrun capture: it has kernels", len(capture.kernels) > 0, f"{capture.rows}", "more than 0")


def top(setup, table):
    """Watches a program with `lockstep top` for a minute."""
    samples = 2 if setup.simulate else 12
    with Session(setup, "top") as session:
        workload = session.workload("loop", cuda_loop(setup, session, "loop"), session.under_run())
        if not registers(table, session, workload):
            return
        time.sleep(1)
        began_ns, before = time.time_ns(), len(workload.events("burst"))
        code, out, err = session.cli("top", "--count", str(samples), "--every", "2s" if setup.simulate else "5s", "--window", "500ms",
                                     "--format", "json", timeout=75)
        seconds = (time.time_ns() - began_ns) / 1e9
        bursts = len(workload.events("burst")) - before
        table.check("`lockstep top` shows its samples", code == 0 and len(out.splitlines()) == samples,
                    f"exit {code}, {len(out.splitlines())} samples in {seconds:.0f} s: {why(err)}", f"{samples} samples")
        code = workload.stop()
        table.check("the program runs on and ends normally", code == 0 and bursts > 0,
                    f"{bursts / seconds:.1f} bursts per second, exit {code}: {workload.output()}", "exit 0")
