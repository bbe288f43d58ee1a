"""Jobs without a hang, in which `lockstep hang` must find none."""
import subprocess
import time

from loop_job import loop_job
from row import Row
from waiting import wait_until

AFTER = "3s"
PAUSE_MS = 5000
RUN_SECONDS = 30


def healthy(turn):
    """One rank keeps the others waiting for longer than --after, again and again, or the GPUs of all have long work."""
    args = ["--pause-ms", str(PAUSE_MS), "--seed", str(turn.draw.randrange(1 << 30))]
    env = {"SIMGPU_KERNELS": f"*scale*={PAUSE_MS}ms"}
    with loop_job(turn.programs.bin, turn.work, 4, "healthy", 0, env=env, more_args=args) as job:
        hang = [str(turn.programs.bin / "lockstep"), "hang", "--after", AFTER]
        wait_until(lambda: job.cli("hang").stdout.startswith("NO HANG: 4 ranks"), "the ranks' progress", job.rank_output)
        began = time.monotonic()
        watch = subprocess.Popen([*hang, "--watch"], env=job.env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            watch.wait(RUN_SECONDS)
        except subprocess.TimeoutExpired:
            watch.kill()
        said, _ = watch.communicate()
        assert watch.returncode < 0, f"lockstep hang ended with {watch.returncode}: {said}"
        assert "WAITING: " in said, f"no pause was seen: {said}"
        turn.count("pauses seen", said.count("WAITING: "))
        turn.count("seconds watched", round(time.monotonic() - began))


ROWS = [
    Row("no-hang", f"`lockstep hang --watch --after {AFTER}` beside a job with evaluations, checkpoints and long steps of {PAUSE_MS // 1000} s", healthy, 120, short=True),
]
