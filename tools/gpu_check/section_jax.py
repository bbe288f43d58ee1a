"""Checks a JAX process. XLA has its own runtime, and uses CUPTI only while its profiler runs."""
import captures
from helpers import READY_S, registers, traced
from session import Session


def jax(setup, table):
    if not setup.has("jax"):
        table.left_out("a JAX process", "the simulated stack runs no JAX" if setup.simulate else "this Python has no JAX")
        return
    with Session(setup, "jax") as session:
        workload = session.workload("loop", setup.script("jax_loop.py", "--log", session.folder / "loop.jsonl"), session.under_run())
        ready = workload.wait_for("ready", 1, READY_S)
        if ready and not ready["device"].lower().startswith(("cuda", "gpu")):
            table.left_out("a JAX process", f"this JAX {ready['jax']} has no GPU: {ready['device']}")
            return
        if not registers(table, session, workload) or not workload.wait_for("step", 20, READY_S):
            table.check("the loop runs", False, workload.output(), "steps")
            return
        for number in (1, 2):
            capture = traced(table, session, f"capture {number}", "--duration", "1s")
            if capture is not None:
                captures.check_complete(table, capture, f"capture {number}")
        code = workload.stop()
        table.check("the loop ends normally", code == 0, f"exit {code}: {workload.output()}", "exit 0")
