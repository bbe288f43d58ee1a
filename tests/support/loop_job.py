"""Jobs of lockstep_hang_loop, whose header lists what a rank can do at a step."""
import pathlib
import time

from live_job import LiveJob


def loop_job(bin_dir, work, ranks, kind, rank, *, step=0, mode=("--mode", "nccl"), env=None, more_args=()):
    """Returns a LiveJob on the simulated stack, in which `rank` does `kind` from `step` on. Of --kind slow, the GPU's kernel takes
    10 ms."""
    bin_dir = pathlib.Path(bin_dir)
    program = [str(bin_dir / "lockstep_hang_loop"), "--id-file", str(pathlib.Path(work) / f"id{time.monotonic_ns()}"), "--kind", kind,
               "--rank", str(rank), "--step", str(step), "--elements", "4096", *more_args]
    env = {"LD_LIBRARY_PATH": str(bin_dir.parent / "lib" / "sim_stack"), "SIMGPU_KERNELS": "*scale*=10ms", **(env or {})}
    return LiveJob(bin_dir, work, ranks=ranks, env=env, rank_command=program, run_args=mode)
