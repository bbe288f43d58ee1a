"""Simulates torchrun for tests on machines without PyTorch: the workers' environment and their restarts. The
variables are those of "Environment Variables" in torchrun's documentation (docs.pytorch.org,
torch.distributed.run), on one node.

    fake_torchrun.py [--nproc-per-node N] [--rdzv-id ID] [--max-restarts N] [--initialise-cuda] -- COMMAND

If a worker fails, all workers end and start again with TORCHELASTIC_RESTART_COUNT increased by one, at
most --max-restarts times. --initialise-cuda calls cuInit in the launcher, as `import torch` does with KINETO_USE_DAEMON."""
import argparse
import ctypes
import os
import signal
import subprocess
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument("--nproc-per-node", type=int, default=1)
parser.add_argument("--rdzv-id", default="none")
parser.add_argument("--max-restarts", type=int, default=0)
parser.add_argument("--initialise-cuda", action="store_true")
parser.add_argument("command", nargs="+")
options = parser.parse_args()
if options.initialise_cuda and ctypes.CDLL("libcuda.so.1").cuInit(0) != 0:
    sys.exit("fake_torchrun: cuInit failed")
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def start(restart):
    workers = []
    for rank in range(options.nproc_per_node):
        of_rank = {"RANK": rank, "LOCAL_RANK": rank, "ROLE_RANK": rank, "GROUP_RANK": 0, "GROUP_WORLD_SIZE": 1}
        of_all = {"WORLD_SIZE": options.nproc_per_node, "LOCAL_WORLD_SIZE": options.nproc_per_node, "ROLE_WORLD_SIZE": options.nproc_per_node,
                  "ROLE_NAME": "default", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 29500, "TORCHELASTIC_RUN_ID": options.rdzv_id,
                  "TORCHELASTIC_RESTART_COUNT": restart, "TORCHELASTIC_MAX_RESTARTS": options.max_restarts,
                  "TORCHELASTIC_USE_AGENT_STORE": "True", "OMP_NUM_THREADS": 1}
        workers.append(subprocess.Popen(options.command, env={**os.environ, **{name: str(value) for name, value in {**of_rank, **of_all}.items()}}))
    return workers


def end(workers):
    for worker in workers:
        if worker.poll() is None:
            worker.kill()
        worker.wait()


for restart in range(options.max_restarts + 1):
    workers = start(restart)
    try:
        while all(worker.poll() is None for worker in workers):
            time.sleep(0.05)
        failed = any(worker.wait() if worker.poll() is not None else True for worker in workers if worker.poll() not in (None, 0))
    finally:
        end(workers)
    if not failed:
        sys.exit(0)
sys.exit(1)
