"""Causes the five problems of docs/operations.md with the real programs, and compares their output with the
page. A block ```text symptom-NAME of the page holds the text. A word in capitals stands for a value that
varies."""
import json
import os
import pathlib
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import unittest
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
from live_job import LiveJob  # noqa: E402
from waiting import wait_for_check  # noqa: E402

BIN = pathlib.Path(sys.argv.pop(1))
PAGE = (ROOT / "docs/operations.md").read_text()
SYMPTOMS = dict(re.findall(r"^```text symptom-([a-z-]+)\n(.*?)^```$", PAGE, flags=re.M | re.S))
VARIABLE = re.compile(r"\b(ADDRESS|BYTES|CAPTURE|FILE|HOST|JOB|N|PID|RANKS|REASON|SECONDS|STAGES|UID)\b")
SHOWN = set()


def pattern_of(line):
    return "".join(".+?" if VARIABLE.fullmatch(part) else re.escape(part) for part in VARIABLE.split(line))


class Operations(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="lk-operations-")
        self.addCleanup(folder.cleanup)
        self.work = pathlib.Path(folder.name)
        self.token_file = self.work / "token"
        self.token = secrets.token_hex(16)
        self.write_token(self.token_file, self.token)

    def write_token(self, path, token):
        path.write_text(token + "\n")
        path.chmod(0o600)

    def assert_shown(self, name, printed):
        """Checks that each line of the page's block begins a line of `printed`."""
        SHOWN.add(name)
        lines = SYMPTOMS[name].splitlines()
        self.assertTrue(lines)
        for line in lines:
            self.assertRegex(printed, re.compile("^" + pattern_of(line) + "$", re.M), f"symptom-{name}")

    def aggregator(self, *args, log_format="json"):
        """Starts an aggregator that ends with the test. Returns its address and the address of its pages."""
        self.log = self.work / "aggregator.log"
        process = subprocess.Popen(
            [str(BIN / "lockstep-aggregator"), "--listen", "127.0.0.1:0", "--token-file", str(self.token_file), "--http", "127.0.0.1:0",
             "--state-dir", str(self.work / "state"), "--log", str(self.log), "--log-format", log_format, *map(str, args)], stdin=subprocess.DEVNULL)
        self.addCleanup(process.wait, 60)
        self.addCleanup(process.terminate)
        self.wait(lambda: self.events("pages"))
        return self.events("listening")[0]["address"], self.events("metrics")[0]["address"]

    def events(self, name):
        text = self.log.read_text() if self.log.exists() else ""
        return [event for event in map(json.loads, text.splitlines()) if event["event"] == name]

    def audited(self, **members):
        lines = map(json.loads, (self.work / "state" / "audit.jsonl").read_text().splitlines())
        return [line for line in lines if members.items() <= line.items()]

    def metrics(self, address, beginning, token=None):
        """Returns the sum of the samples whose lines begin with `beginning`."""
        request = urllib.request.Request(f"http://{address}/metrics", headers={"Authorization": f"Bearer {token or self.token}"})
        with urllib.request.urlopen(request, timeout=10) as answer:
            found = re.findall("^" + re.escape(beginning) + r".*? ?(\S+)$", answer.read().decode(), re.M)
        self.assertTrue(found, beginning)
        return sum(map(float, found))

    def metric(self, address, sample, token=None):
        return self.metrics(address, sample + " ", token)

    def wait(self, holds):
        """Waits until `holds` returns something, and returns that. A program may log, count or audit an event a
        little after its caller has the answer."""
        def check():
            found = holds()
            self.assertTrue(found)
            return found
        return wait_for_check(check)

    def wait_for_metric(self, address, sample, number, token=None):
        wait_for_check(lambda: self.assertEqual(self.metric(address, sample, token), number, sample))

    def job(self, ranks=2, rank_args=(), **kwargs):
        return LiveJob(BIN, self.work / "job", ranks=ranks, rank_args=("--forever", "--seed", "11", *rank_args), **kwargs)

    def daemon(self, job, address, *args):
        """Starts the job's daemon before LiveJob would start its own. Returns the daemon's log."""
        log = self.work / "lockstepd.log"
        process = subprocess.Popen(
            [str(BIN / "lockstepd"), "--socket", str(job.socket), "--aggregator", address, "--token-file", str(self.token_file), "--log", str(log),
             "--log-format", "json", *map(str, args)], stdin=subprocess.DEVNULL)
        self.addCleanup(process.wait, 60)
        self.addCleanup(process.terminate)
        self.wait(lambda: log.exists() and "listening" in log.read_text())
        return log

    def reach(self, address):
        return ("--aggregator", address, "--token-file", self.token_file)

    def doctor(self, job, address, *args):
        return job.cli("doctor", "--cluster", *self.reach(address), *args)

    def test_a_rank_never_came(self):
        address, _ = self.aggregator()
        # The job has two processes but a world size of three.
        job = self.job(rank_command=["sh", "-c", 'LOCKSTEP_RANK=$OMPI_COMM_WORLD_RANK LOCKSTEP_WORLD_SIZE=3 exec "$0" "$@"', str(BIN / "lockstep-sim-rank"),
                                     "--truth", str(self.work), "--forever", "--seed", "11"])
        self.daemon(job, address)
        with job:
            job.wait_for_ranks()
            done = self.wait(lambda: (d := self.doctor(job, address)).returncode == 1 and d)
            self.assert_shown("rank-missing", done.stdout)
            document = json.loads(self.doctor(job, address, "--format", "json").stdout)
            self.assertIn("broken", [f["verdict"] for f in document["findings"]])
            trace = job.trace(self.work / "out", *self.reach(address), "--duration", "300ms")
            self.assertEqual(trace.returncode, 7, trace.stderr)
            self.assert_shown("rank-missing-trace", trace.stdout + trace.stderr)
            self.wait(lambda: self.audited(what="trace", stage="end", result="partial"))

    def test_a_rank_does_not_answer(self):
        address, metrics = self.aggregator()
        job = self.job()
        self.daemon(job, address)
        with job:
            status = job.wait_for_ranks()
            pid = next(r["pid"] for d in status["daemons"] for r in d["ranks"] if r["rank"] == 1)
            os.kill(pid, signal.SIGSTOP)
            try:
                trace = job.trace(self.work / "out", *self.reach(address), "--duration", "300ms", "--arm-timeout", "2s")
            finally:
                os.kill(pid, signal.SIGCONT)
            self.assert_shown("rank-silent", trace.stdout + trace.stderr)
            self.assertIn(trace.returncode, (6, 7))
            ended = self.wait(lambda: self.events("capture_ended"))[0]
            self.assertIn(ended["outcome"], ("partial", "timed_out"))
            self.wait_for_metric(metrics, 'lockstep_aggregator_captures_total{outcome="%s"}' % ended["outcome"], 1)

    def test_the_token_is_another(self):
        address, metrics = self.aggregator()
        job = self.job()
        right, self.token_file = self.token_file, self.work / "other"
        self.write_token(self.token_file, secrets.token_hex(16))
        log = self.daemon(job, address, "--metrics", "127.0.0.1:0")
        with job:
            job.wait_for_ranks()
            status = self.wait(lambda: (s := job.cli("status")).stdout.count("is unreachable: ") and s)
            refused = job.cli("status", *self.reach(address))
            self.assert_shown("token-status", status.stdout)
            self.assertEqual(refused.returncode, 5)
            self.assert_shown("token-cli", refused.stderr)
            self.wait(lambda: "uplink_down" in log.read_text())
            daemon_metrics = next(e["address"] for e in map(json.loads, log.read_text().splitlines()) if e["event"] == "metrics")
            other = self.token_file.read_text().strip()
            self.wait_for_metric(daemon_metrics, 'lockstep_daemon_uplink_connected{aggregator="%s"}' % address, 0, other)
            self.token_file = right
            done = self.doctor(job, address)
            self.assertEqual(done.returncode, 1)
            self.assert_shown("token-doctor", done.stdout)
        # Neither program sent its token to a server that it could not check. One that has the right server
        # and the wrong token does send it.
        self.assertEqual(self.audited(result="refused"), [])
        self.assertEqual(job.cli("node", "authority", self.work / "tls", "--token-file", right).returncode, 0)
        wrong = job.cli("status", "--aggregator", address, "--tls-dir", self.work / "tls", "--token-file", self.work / "other")
        self.assertEqual(wrong.returncode, 5)
        self.assertIn("wrong token", wrong.stderr)
        self.wait(lambda: self.audited(what="status", result="refused"))
        kept = (self.work / "state" / "audit.jsonl").read_text()
        self.assertNotIn(self.token, kept)
        self.assertNotIn(other, kept)
        self.wait(lambda: self.metric(metrics, 'lockstep_aggregator_rpc_requests_total{method="Control.Status",code="UNAUTHENTICATED"}') > 0)

    def test_records_are_lost(self):
        address, _ = self.aggregator()
        job = self.job(ranks=4, rank_args=("--layers", "14", "--matmul", "20us"))
        log = self.daemon(job, address, "--ring-bytes", "64KiB", "--metrics", "127.0.0.1:0")
        with job:
            job.wait_for_ranks()
            trace = job.trace(self.work / "out", *self.reach(address), "--duration", "2s")
            self.assertEqual(trace.returncode, 0, trace.stderr)
            self.assert_shown("losses", trace.stdout)
            metrics = next(e["address"] for e in map(json.loads, log.read_text().splitlines()) if e["event"] == "metrics")
            # The kind of a lost record is random, because any record can meet a full ring.
            self.wait(lambda: self.metrics(metrics, 'lockstep_daemon_lost_records_total{stage="ring",') > 0)

    def test_a_capture_is_gone(self):
        address, metrics = self.aggregator("--keep-captures", "1")
        job = self.job()
        self.daemon(job, address)
        with job:
            job.wait_for_ranks()
            for name in ("first", "second"):
                trace = job.trace(self.work / name, *self.reach(address), "--duration", "300ms")
                self.assertEqual(trace.returncode, 0, trace.stderr)
            gone = self.wait(lambda: self.events("capture_removed"))[0]
            self.assertEqual(gone["limit"], "captures")
            asked = job.cli("report", gone["capture"], *self.reach(address))
            self.assertEqual(asked.returncode, 4, asked.stderr)
            self.assert_shown("capture-gone", asked.stderr)
            self.wait_for_metric(metrics, 'lockstep_aggregator_retired_captures_total{limit="captures"}', 1)
        removed = self.wait(lambda: self.audited(what="retire"))
        self.assertEqual([line["capture"] for line in removed], [gone["capture"]])
        refused = self.wait(lambda: self.audited(what="fetch", result="not_found"))
        begun, ended = self.audited(what="fetch", id=refused[0]["id"])
        self.assertEqual((begun["stage"], ended["stage"], begun["capture"]), ("begin", "end", gone["capture"]))

    def test_settings_do_not_fit(self):
        file = self.work / "aggregator.conf"
        file.write_text("listen = 0.0.0.0:7077\n")
        check = subprocess.run([BIN / "lockstep", "config", "check", file], text=True, capture_output=True)
        start = subprocess.run([BIN / "lockstep-aggregator", "--config", file], text=True, capture_output=True)
        self.assertEqual((check.returncode, start.returncode), (2, 2))
        self.assertEqual(check.stderr, start.stderr)
        self.assert_shown("settings", start.stderr)

    def test_zz_every_documented_symptom_was_provoked(self):
        self.assertEqual(SHOWN, set(SYMPTOMS))


if __name__ == "__main__":
    unittest.main(verbosity=2)
