"""A rank of a CUDA and NCCL program on the simulated stack becomes slower or hangs while the job runs under mpiexec. A
permanent aggregator must notice it, name the rank, capture the job within the operator's limit, and run the operator's
program."""
import json
import os
import pathlib
import random
import signal
import sys
import tempfile
import time
import unittest

SUPPORT = pathlib.Path(__file__).resolve().parents[1] / "support"
sys.path.insert(0, str(SUPPORT))
from local_aggregator import LocalAggregator  # noqa: E402
from loop_job import loop_job  # noqa: E402
from waiting import wait_until  # noqa: E402

BIN = pathlib.Path(sys.argv.pop(1)).resolve()
RANKS = 4
# Another one in each run, which prints it.
SLOW = random.randrange(RANKS)
# A step takes 20 ms and a little. Before this one, the noise of the job is learned.
STEP = 500
# The machine of the test is loaded, so that a step sometimes takes twice as long.
WITHIN_STEPS = 40


class Noticing(unittest.TestCase):
    def start(self, kind, *settings, step=STEP):
        """Starts an aggregator and a job in which rank SLOW becomes slower at `step`."""
        folder = tempfile.TemporaryDirectory(prefix="lk-")
        self.addCleanup(folder.cleanup)
        self.work = pathlib.Path(folder.name)
        self.aggregator = LocalAggregator(self, BIN, self.work, *settings)
        self.address = self.aggregator.address
        job = loop_job(BIN, self.work / "job", RANKS, kind, SLOW, step=step, env={"LOCKSTEP_AGGREGATOR": self.address})
        job.__enter__()
        self.addCleanup(job.__exit__)
        job.wait_for_ranks()
        return job

    def status(self, job, member="jobs"):
        """Returns the first entry of a list of the status, or None."""
        done = job.cli("status", "--aggregator", self.address, "--format", "json")
        entries = json.loads(done.stdout)[member] if done.returncode == 0 else []
        return entries[0] if entries else None

    def wait_for_slowdown(self, job, done=lambda slowdown: True):
        last = []

        def noticed():
            last[:] = [self.status(job)]
            return last[0] and last[0]["slowdowns"] and done(last[0]["slowdowns"][0])
        wait_until(noticed, "a slowdown", lambda: f"{last}\n{self.aggregator.log_text()}{job.rank_output()}", 90)
        return last[0]["slowdowns"][0]

    def assert_noticed(self, slowdown):
        print(f"noticed after {slowdown['noticed_step'] - slowdown['since_step'] + 1} steps", flush=True)
        self.assertEqual(slowdown["rank"], SLOW, slowdown)
        self.assertLess(slowdown["noticed_step"] - slowdown["since_step"], WITHIN_STEPS, slowdown)
        self.assertAlmostEqual(slowdown["own_now_ns"] - slowdown["own_before_ns"], 10e6, delta=4e6, msg=slowdown)
        self.assertGreater(slowdown["step_now_ns"], slowdown["step_before_ns"])
        self.assertLess(abs(slowdown["since_unix_ns"] / 1e9 - time.time()), 120)

    def test_a_late_host_is_noticed_captured_and_named(self):
        job = self.start("late", "--alarm-captures", "1")
        slowdown = self.wait_for_slowdown(job, lambda s: s["capture"] or s["no_capture"])
        self.assert_noticed(slowdown)
        self.assertIsNone(slowdown["no_capture"])
        report = json.loads((self.work / "state/captures" / slowdown["capture"] / "report.json").read_text())
        self.assertEqual(report["stragglers"][0]["ranks"], [SLOW], json.dumps(report["stragglers"], indent=1))
        self.assertIn("rank_slower", self.aggregator.log_text())
        lines = [json.loads(line) for line in (self.work / "state/audit.jsonl").read_text().splitlines()]
        audited = [line for line in lines if "because" in line]
        self.assertEqual(len({line["id"] for line in audited}), 1)
        self.assertIn(f"rank {SLOW} ", audited[0]["because"])
        text = job.cli("status", "--aggregator", self.address).stdout
        self.assertIn(f"  slower: rank {SLOW} ", text)
        self.assertIn(f"capture {slowdown['capture']}", text)

    def test_a_slow_gpu_is_noticed_without_a_capture(self):
        job = self.start("slow")
        slowdown = self.wait_for_slowdown(job)
        self.assert_noticed(slowdown)
        self.assertIsNone(slowdown["capture"])
        self.assertIsNone(slowdown["no_capture"])
        self.assertEqual(list((self.work / "state/captures").iterdir()), [])
        self.assertIn(f"\nSLOWER rank {SLOW} ", job.cli("top", "--aggregator", self.address, "--once").stdout)

    def test_a_restarted_aggregator_learns_again(self):
        """The ranks' logs have hundreds of earlier steps then, of which it must make nothing."""
        job = self.start("late", step=2 * STEP)
        wait_until(lambda: (self.status(job) or {"last_step": 0})["last_step"] >= STEP, "steps", self.aggregator.log_text, 60)
        self.aggregator.process.kill()
        self.aggregator.process.wait()
        self.aggregator = LocalAggregator(self, BIN, self.work)
        slowdown = self.wait_for_slowdown(job)
        self.assert_noticed(slowdown)
        self.assertAlmostEqual(slowdown["since_step"], 2 * STEP, delta=20)

    def alarm_program(self):
        """Returns a program that keeps the document that it reads."""
        folder = tempfile.TemporaryDirectory(prefix="lk-")
        self.addCleanup(folder.cleanup)
        self.alarm = pathlib.Path(folder.name) / "alarm.json"
        program = pathlib.Path(folder.name) / "alarm"
        program.write_text(f"#!/bin/sh\ncat > {self.alarm}.partial\nmv {self.alarm}.partial {self.alarm}\n")
        program.chmod(0o700)
        return program

    def test_a_hang_is_noticed_captured_and_passed_on(self):
        job = self.start("sleep", "--hang-after", "2s", "--alarm-captures", "1", "--alarm-command", self.alarm_program(), step=100)

        def ended(hang):
            return hang and (hang["capture"] or hang["no_capture"])
        wait_until(lambda: ended(self.status(job, "hangs")), "a hang", lambda: f"{self.aggregator.log_text()}{job.rank_output()}")
        hang = self.status(job, "hangs")
        self.assertEqual((hang["cause"], hang["late_ranks"], hang["ended_unix_ns"]), ("never_entered", [SLOW], None), hang)
        self.assertRegex(hang["sentence"], rf"^rank {SLOW} \(.*\) never entered all_reduce #101 of world; 3 ranks wait in it for [\d.]+ s$")
        self.assertIsNone(hang["no_capture"])
        self.assertTrue((self.work / "state/captures" / hang["capture"] / "report.json").exists())
        wait_until(self.alarm.exists, "the program's file", self.aggregator.log_text)
        alarm = json.loads(self.alarm.read_text())
        self.assertEqual((alarm["schema"], alarm["kind"], alarm["ranks"], alarm["hosts"]), ("lockstep.alarm/1", "hang", [SLOW], hang["late_hosts"]))
        self.assertEqual((alarm["text"], alarm["capture"]), (hang["sentence"], hang["capture"]))
        self.assertIn("hangs: " + hang["sentence"], job.cli("status", "--aggregator", self.address).stdout)
        self.assertIn(f"\nHANG rank {SLOW} ", job.cli("top", "--aggregator", self.address, "--once").stdout)
        job.signal_ranks(signal.SIGKILL)
        wait_until(lambda: self.status(job, "hangs")["ended_unix_ns"], "the end", self.aggregator.log_text)
        self.assertIn("job_hangs_ended", self.aggregator.log_text())

    def test_a_healthy_job_shows_its_steps(self):
        job = self.start("none", "--hang-after", "2s")
        wait_until(lambda: (self.status(job) or {"compared_steps": 0})["compared_steps"] >= 2 * STEP, "steps",
                   lambda: f"{self.status(job)}\n{self.aggregator.log_text()}", 60)
        status = self.status(job)
        self.assertEqual((status["ranks"], status["slowdowns"]), (RANKS, []))
        self.assertIsNone(self.status(job, "hangs"))
        self.assertGreater(status["step_time_ns"], 20e6)


if __name__ == "__main__":
    print(f"slow rank: {SLOW}", os.uname().nodename, flush=True)
    unittest.main(verbosity=2)
