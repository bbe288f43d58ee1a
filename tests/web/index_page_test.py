#!/usr/bin/env python3
"""index_page_test.py REPOSITORY BUILD: tests the aggregator's page with a real aggregator, a daemon and
simulated ranks. This script prepares their commands, and index_page_test.mjs starts and ends them.
Screenshots go to BUILD/web-test/out."""
import json
import os
import pathlib
import secrets
import socket
import sys
import tempfile

from page_test_packages import install, run

repository, build = (pathlib.Path(a).resolve() for a in sys.argv[1:3])
sys.path.insert(0, str(repository / "tests" / "support"))
from live_job import LiveJob  # noqa: E402

modules = install(repository, build) / "node_modules"
out = build / "web-test" / "out"
out.mkdir(exist_ok=True)
bin_dir = build / "bin"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


with tempfile.TemporaryDirectory(prefix="lockstep-index-") as folder:
    work = pathlib.Path(folder)
    token_file = work / "token"
    token = secrets.token_hex(16)
    token_file.touch(mode=0o600)
    token_file.write_text(token + "\n")
    job = LiveJob(bin_dir, work / "job", ranks=4, env={"LOCKSTEP_JOB": "llama-pretrain"},
                  rank_args=("--forever", "--seed", "11", "--time-scale", "4", "--fault", "slow_gpu", "--fault-rank", "2"))
    # The ports are fixed, so that a restarted aggregator has the same address.
    address, http = (f"127.0.0.1:{free_port()}" for _ in range(2))
    plan = {
        "url": f"http://{http}/",
        "token": token,
        "env": job.env,
        "aggregator": [bin_dir / "lockstep-aggregator", "--listen", address, "--token-file", token_file, "--http", http, "--state-dir", work / "state", "--keep-captures", "2000"],
        "daemon": [bin_dir / "lockstepd", "--socket", job.socket, "--aggregator", address, "--token-file", token_file, "--log", work / "daemon.log"],
        "ranks": job.command,
        "trace": [bin_dir / "lockstep", "trace", "--aggregator", address, "--token-file", token_file, "-o"],
        "work": work,
        "captures": work / "state" / "captures",
    }
    (work / "plan.json").write_text(json.dumps(plan, default=str))
    os.environ.pop("NODE_OPTIONS", None)
    run("node", "--test-reporter=spec", repository / "tests/web/index_page_test.mjs", modules, work / "plan.json", out)
