"""Prometheus scrapes lockstepd and lockstep-aggregator during a capture of a simulated job. Its stored values
must equal those of `lockstep status`, of the reports and of the files on disk. Wrong tokens are refused,
and misbehaving callers disturb no other caller.

Without Prometheus (Debian: prometheus) this script reads the pages itself, and skips the checks that need
Prometheus and promtool."""
import json
import pathlib
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tests" / "support"))
from count_records import count_capture  # noqa: E402
from late_ranks import RANK_ARGS  # noqa: E402
from live_job import LiveJob, report_of  # noqa: E402
from waiting import wait_for_check, wait_until  # noqa: E402

BIN = pathlib.Path(sys.argv.pop(1))
EXAMPLE = REPOSITORY / "deploy" / "prometheus"
RULES = ["lockstep_alerts.yml", "lockstep_rules.yml"]
DASHBOARD = REPOSITORY / "deploy" / "grafana" / "lockstep.json"
RANKS = 4
SAMPLE = re.compile(r'^([a-z_]+)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')


def get(address, path, token=None, timeout=10):
    request = urllib.request.Request(f"http://{address}{path}")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def dashboard_queries():
    """Returns (title of the panel, expression, legend) of each query of the dashboard, with Grafana's variables replaced."""
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel.get("targets", []):
            expression = target["expr"]
            for variable, value in (("$__rate_interval", "1m"), ("$node", ".*"), ("$training", ".*")):
                expression = expression.replace(variable, value)
            yield panel["title"], expression, target["legendFormat"]


def samples(page):
    """Returns (name, {label: value}, number) of each sample line."""
    found = []
    for line in page.splitlines():
        if line.startswith("#"):
            continue
        name, labels, value = SAMPLE.match(line).groups()
        found.append((name, dict(LABEL.findall(labels or "")), float(value)))
    return found


def total(page, name, **labels):
    """Returns the sum over the samples with that name and those labels. Fails if none exists."""
    values = [value for n, have, value in samples(page) if n == name and labels.items() <= have.items()]
    assert values, f"no sample {name} {labels}"
    return sum(values)


def documented(program):
    """Returns {family: (type, labels)} of that program from docs/formats/metrics.md."""
    sections = re.split(r"^## ", (REPOSITORY / "docs/formats/metrics.md").read_text(), flags=re.M)
    families = {}
    for section in sections:
        if section.split("\n", 1)[0] not in (program, "Both"):
            continue
        for name, kind, labels in re.findall(r"^\| `([a-z_]+)` \| (\w+) \| ([^|]*)\|", section, flags=re.M):
            families[name] = (kind, frozenset(re.findall(r"`([a-z]+)`", labels)))
    return families


class Programs:
    """An aggregator, a daemon with metrics ports, and a job of simulated ranks, all in one folder. The job is
    slow enough for a busy machine."""

    def __init__(self, work, rank_args=()):
        self.work = work
        self.token_file = work / "token"
        self.token = secrets.token_hex(16)
        self.token_file.write_text(self.token + "\n")
        self.token_file.chmod(0o600)
        self.job = LiveJob(BIN, work / "job", ranks=RANKS, rank_args=("--forever", "--seed", "11", *RANK_ARGS, *rank_args))

    def __enter__(self):
        self.log = open(self.work / "aggregator.log", "w")
        self.aggregator = subprocess.Popen(
            [str(BIN / "lockstep-aggregator"), "--listen", "127.0.0.1:0", "--token-file", str(self.token_file), "--metrics", "127.0.0.1:0",
             "--state-dir", str(self.work / "state")], stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.address = self.aggregator.stdout.readline().split("listening on ")[1].strip()
        self.aggregator_metrics = self.aggregator.stdout.readline().split("metrics on ")[1].strip()
        log = self.work / "lockstepd.log"
        self.daemon = subprocess.Popen(
            [str(BIN / "lockstepd"), "--socket", str(self.job.socket), "--aggregator", self.address, "--token-file", str(self.token_file),
             "--metrics", "127.0.0.1:0", "--log", str(log)], stdin=subprocess.DEVNULL)
        found = wait_until(lambda: log.exists() and re.search(r" metrics address=(\S+)", log.read_text()), "the daemon's metrics port")
        self.daemon_metrics = found.group(1)
        self.job.__enter__()
        self.job.wait_for_ranks()
        return self

    def __exit__(self, *_):
        self.job.__exit__()
        for process in (self.daemon, self.aggregator):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.wait(60)
        self.aggregator.stdout.close()
        self.log.close()

    def trace(self, name, duration):
        out = self.work / name
        done = self.job.trace(out, "--aggregator", self.address, "--token-file", self.token_file, "--duration", duration)
        assert done.returncode == 0, done.stdout + done.stderr + (self.work / "aggregator.log").read_text()
        return report_of(out)

    def page(self, address):
        status, text = get(address, "/metrics", self.token)
        assert status == 200, text
        return text

    def pages(self):
        return self.page(self.daemon_metrics), self.page(self.aggregator_metrics)


class Prometheus:
    """A real Prometheus with the example of deploy/prometheus, changed to these ports and a scrape every
    second. It has a third job with a wrong token."""

    def __init__(self, programs):
        self.folder = programs.work / "prometheus"
        self.folder.mkdir()
        wrong = self.folder / "wrong_token"
        wrong.write_text(secrets.token_hex(16))
        text = (EXAMPLE / "prometheus.yml").read_text()
        for old, new in (("127.0.0.1:9464", programs.daemon_metrics), ("127.0.0.1:9465", programs.aggregator_metrics),
                         ("/etc/lockstep/token", str(programs.token_file)), ("scrape_interval: 15s", "scrape_interval: 1s\n  evaluation_interval: 1s")):
            assert old in text, old
            text = text.replace(old, new)
        text += (f"  - job_name: wrong-token\n    authorization:\n      credentials_file: {wrong}\n    static_configs:\n"
                 f'      - targets: ["{programs.daemon_metrics}", "{programs.aggregator_metrics}"]\n')
        self.config = self.folder / "prometheus.yml"
        self.config.write_text(text)
        for rules in RULES:
            shutil.copy(EXAMPLE / rules, self.folder)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{probe.getsockname()[1]}"

    def __enter__(self):
        self.log = open(self.folder / "log", "w")
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={self.config}", f"--storage.tsdb.path={self.folder / 'data'}", f"--web.listen-address={self.address}"],
            stdout=self.log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(60)
        self.log.close()

    def ask(self, what, **parameters):
        status, text = get(self.address, f"/api/v1/{what}?" + urllib.parse.urlencode(parameters))
        assert status == 200, text
        return json.loads(text)["data"]

    def query(self, expression):
        """Returns {labels: number}. The labels are a sorted tuple without the name."""
        result = self.ask("query", query=expression)["result"]
        return {tuple(sorted((k, v) for k, v in r["metric"].items() if k != "__name__")): float(r["value"][1]) for r in result}

    def wait_for_number(self, expression, holds):
        """Waits until the query has one value, for which `holds` is true. A scrape may be older than the event
        that it is to show."""
        self.wait(expression, lambda result: len(result) == 1 and holds(*result.values()))

    def wait(self, expression, holds, timeout=60):
        """Waits until `holds` is true for the result of the query. Returns the result."""
        deadline = time.monotonic() + timeout
        last = None
        while time.monotonic() < deadline:
            try:
                last = self.query(expression)
                if holds(last):
                    return last
            except (OSError, AssertionError) as error:
                last = error
            time.sleep(0.2)
        raise AssertionError(f"{expression} was {last} after {timeout} s; {(self.folder / 'log').read_text()[-2000:]}")


class Misbehaviour:
    """Callers that open connections to a metrics port until the block ends. Some send an incomplete request,
    others far too much."""

    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self.to = (host, int(port))
        self.over = threading.Event()
        self.connections = 0
        self.threads = [threading.Thread(target=work) for work in (self.be_slow, self.be_huge)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        for thread in self.threads:
            thread.join()

    def be_slow(self):
        held = []
        while not self.over.wait(0.01):
            try:
                caller = socket.create_connection(self.to, timeout=1)
                caller.sendall(b"GET /metrics HT")
                held.append(caller)
                self.connections += 1
            except OSError:
                pass
            if len(held) > 100:
                held.pop(0).close()
        for caller in held:
            caller.close()

    def be_huge(self):
        while not self.over.wait(0.01):
            try:
                with socket.create_connection(self.to, timeout=1) as caller:
                    self.connections += 1
                    caller.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nX: " + b"x" * (4 << 20))
                    caller.recv(100)
            except OSError:
                pass


def losses_of(report):
    by_stage = {}
    for loss in report["capture"]["losses"]:
        by_stage[loss["stage"]] = by_stage.get(loss["stage"], 0) + loss["records"]
    return by_stage


class Metrics(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="lockstep-metrics-")
        self.addCleanup(folder.cleanup)
        self.work = pathlib.Path(folder.name)

    def check_families(self, program, page):
        want = documented(program)
        have = dict(re.findall(r"^# TYPE (\S+) (\S+)$", page, flags=re.M))
        self.assertEqual(have, {name: kind for name, (kind, _) in want.items()}, "docs/formats/metrics.md lists other families")
        seen = {}
        for name, labels, _ in samples(page):
            family = name if name in want else re.sub(r"_(bucket|sum|count)$", "", name)
            self.assertLessEqual(set(labels) - {"le"}, want[family][1], name)
            seen.setdefault(family, set()).update(set(labels) - {"le"})
        for family, labels in seen.items():
            self.assertEqual(labels, set(want[family][1]), f"labels of {family}")
        return seen

    def check_capture(self, programs, report, capture):
        """Compares both pages after one capture with three sources that share no code with them. A program may
        count an event a little after the caller has its answer. Returns the pages that are right."""
        return wait_for_check(lambda: self.check_pages(programs, report, capture))

    def check_pages(self, programs, report, capture):
        daemon, aggregator = programs.pages()
        status = json.loads(programs.job.cli("status", "--format", "json").stdout)
        self.assertEqual(total(daemon, "lockstep_daemon_ranks"), sum(len(d["ranks"]) for d in status["daemons"]))
        self.assertEqual(total(aggregator, "lockstep_aggregator_ranks"), RANKS)
        self.assertEqual(total(aggregator, "lockstep_aggregator_daemons"), 1)
        stored = sum(rows for kinds in count_capture(capture).values() for kind, rows in kinds.items() if kind != "string")
        self.assertGreater(stored, 1000)
        self.assertEqual(total(aggregator, "lockstep_aggregator_ingested_records_total"), stored)
        self.assertGreaterEqual(total(daemon, "lockstep_daemon_drained_records_total"), stored)
        want = losses_of(report)
        for page, name in ((daemon, "lockstep_daemon_lost_records_total"), (aggregator, "lockstep_aggregator_lost_records_total")):
            self.assertEqual(total(page, name), sum(want.values()))
            for stage, records in want.items():
                self.assertEqual(total(page, name, stage=stage), records)
        for loss_kind in {loss["kind"] for loss in report["capture"]["losses"] if loss.get("kind")}:
            lost = sum(loss["records"] for loss in report["capture"]["losses"] if loss.get("kind") == loss_kind)
            self.assertEqual(total(aggregator, "lockstep_aggregator_lost_records_total", kind=loss_kind), lost)
        to = {"aggregator": programs.address}
        sent = total(daemon, "lockstep_daemon_batches_sent_total", **to)
        self.assertEqual(total(daemon, "lockstep_daemon_batches_acknowledged_total", **to), sent)
        self.assertEqual(total(aggregator, "lockstep_aggregator_ingested_messages_total"), sent)
        self.assertEqual(total(daemon, "lockstep_daemon_spool_bytes", **to), 0)
        self.assertEqual(total(daemon, "lockstep_daemon_captures_total", outcome="complete"), 1)
        self.assertEqual(total(aggregator, "lockstep_aggregator_captures_total", outcome="complete"), 1)
        self.assertEqual(total(aggregator, "lockstep_aggregator_job_slowdown_ratio", job=report["capture"]["job"]), report["slowdown"]["ratio"])
        self.assertEqual(total(aggregator, "lockstep_aggregator_job_stragglers", job=report["capture"]["job"]), len(report["stragglers"]))
        return daemon, aggregator

    def test_metrics_count_the_losses_of_the_report(self):
        with Programs(self.work, ("--drop-fraction", "0.05")) as programs:
            report = programs.trace("capture", "2s")
            self.assertGreater(losses_of(report).get("cupti", 0), 0, "nothing was lost: this test tests nothing")
            self.check_capture(programs, report, self.work / "capture")

    def test_pages_have_the_documented_metrics(self):
        with Programs(self.work) as programs:
            programs.trace("capture", "2s")
            daemon, aggregator = programs.pages()
            self.check_families("lockstepd", daemon)
            seen = self.check_families("lockstep-aggregator", aggregator)
            self.assertIn("lockstep_aggregator_job_slowdown_ratio", seen)
            for address, path, want in ((programs.daemon_metrics, "/healthz", (200, "ok uplink=up\n")),
                                        (programs.aggregator_metrics, "/healthz", (200, "ok daemons=1\n"))):
                self.assertEqual(get(address, path, programs.token), want)
                self.assertEqual(get(address, path)[0], 401)
                self.assertEqual(get(address, "/nothing", programs.token)[0], 404)
            self.measure(programs)
            programs.aggregator.send_signal(signal.SIGTERM)
            programs.aggregator.wait(60)
            wait_until(lambda: get(programs.daemon_metrics, "/healthz", programs.token) == (200, "ok uplink=down\n"), "the uplink is down")

    def measure(self, programs):
        """Measures the cost of a scrape for docs/measurements.md."""
        for name, address in (("lockstepd", programs.daemon_metrics), ("lockstep-aggregator", programs.aggregator_metrics)):
            scrapes = 300
            before = total(programs.page(address), "process_cpu_seconds_total")
            times = []
            for _ in range(scrapes):
                start = time.perf_counter()
                page = programs.page(address)
                times.append(time.perf_counter() - start)
            used = total(programs.page(address), "process_cpu_seconds_total") - before
            print(f"  {name}: a page of {len(page)} bytes, {len(samples(page))} samples; {used / scrapes * 1e6:.0f} us of processor time and "
                  f"{sorted(times)[scrapes // 2] * 1e6:.0f} us (median) per scrape", file=sys.stderr, flush=True)

    @unittest.skipUnless(shutil.which("prometheus") and shutil.which("promtool"),
                         "no prometheus and promtool here: `./dev install --all` installs them")
    def test_prometheus_reads_both_despite_faulty_clients(self):
        with Programs(self.work) as programs, Prometheus(programs) as prometheus:
            up = prometheus.wait('up{job!="wrong-token"}', lambda r: len(r) == 2 and set(r.values()) == {1.0})
            self.assertEqual({dict(labels)["job"] for labels in up}, {"lockstepd", "lockstep-aggregator"})
            prometheus.wait('up{job="wrong-token"}', lambda r: len(r) == 2 and set(r.values()) == {0.0})
            with Misbehaviour(programs.daemon_metrics) as misbehaviour:
                report = programs.trace("capture", "2s")
                wait_until(lambda: misbehaviour.connections > 200, "200 callers misbehave")
            lost = losses_of(report)
            # On a busy machine, kernels that had not run at the end of the window are losses of the client.
            # This test checks the daemon's losses.
            self.assertLessEqual(set(lost), {"client"}, report["capture"]["losses"])
            daemon, aggregator = self.check_capture(programs, report, self.work / "capture")
            self.assertGreater(total(daemon, "lockstep_daemon_http_connections_dropped_total", reason="displaced"), 50)
            # Prometheus must store the values that the pages show now.
            drained = total(daemon, "lockstep_daemon_drained_records_total")
            stored = total(aggregator, "lockstep_aggregator_ingested_records_total")
            for expression, number in (("lockstep_daemon_drained_records_total", drained),
                                       ("lockstep_aggregator_ingested_records_total", stored),
                                       ("sum(lockstep_daemon_lost_records_total)", sum(lost.values())),
                                       ("sum(lockstep_aggregator_lost_records_total)", sum(lost.values())),
                                       ("lockstep_daemon_ranks", RANKS), ("lockstep_aggregator_ranks", RANKS),
                                       ('lockstep_aggregator_rpc_requests_total{method="Control.Trace",code="OK"}', 1)):
                prometheus.wait_for_number(expression, lambda found, number=number: found == number)
            for expression in ("rate(lockstep_daemon_drained_records_total[1m])", 'sum(lockstep_daemon_http_requests_total{code="401"})'):
                prometheus.wait_for_number(expression, lambda found: found > 0)
            # No scrape failed since the first one.
            self.assertEqual(set(prometheus.query('min_over_time(up{job="lockstepd"}[20s])').values()), {1.0})
            ringing = {"LockstepRecordsLost"} if lost else set()
            prometheus.wait("ALERTS", lambda r: {dict(labels)["alertname"] for labels in r} == ringing)
            rules = [rule["name"] for group in prometheus.ask("rules")["groups"] for rule in group["rules"] if rule["health"] == "ok"]
            written = "".join((EXAMPLE / name).read_text() for name in RULES)
            self.assertEqual(len(rules), written.count("- alert: ") + written.count("- record: "), rules)
            # Each panel of the dashboard shows something, with the labels of its legend. Losses have no sample before the first one.
            for title, expression, legend in dashboard_queries():
                found = prometheus.query(expression)
                if not title.startswith("Records lost"):
                    self.assertTrue(found, f"{title}: {expression}")
                for labels in found:
                    self.assertLessEqual(set(re.findall(r"{{(\w+)}}", legend)), set(dict(labels)), f"{title}: {labels}")
            for page in programs.pages():
                self.promtool("check", "metrics", text=page)
            self.promtool("check", "config", prometheus.config)
            # An alert must fire under its condition.
            programs.aggregator.terminate()
            programs.aggregator.wait(60)
            prometheus.wait('ALERTS{alertname="LockstepUplinkDown"}', lambda r: len(r) == 1)
            print(f"  {misbehaviour.connections} callers misbehaved; lost: {lost or 'nothing'}", file=sys.stderr, flush=True)

    @unittest.skipUnless(shutil.which("promtool"), "no promtool here: `./dev install --all` installs it with prometheus")
    def test_the_example_is_valid(self):
        for rules in RULES:
            self.promtool("check", "rules", EXAMPLE / rules)
        # The reader supplies the token's file. The example has no other fault.
        shutil.copytree(EXAMPLE, self.work / "example")
        config = self.work / "example" / "prometheus.yml"
        (self.work / "token").write_text("x")
        config.write_text(config.read_text().replace("/etc/lockstep/token", str(self.work / "token")))
        self.promtool("check", "config", config)

    @unittest.skipUnless(shutil.which("promtool"), "no promtool here: `./dev install --all` installs it with prometheus")
    def test_the_queries_of_the_dashboard_are_valid(self):
        rules = self.work / "dashboard.yml"
        rules.write_text("groups:\n  - name: dashboard\n    rules:\n" + "".join(
            f"      - record: panel{number}\n        expr: {json.dumps(expression)}\n"
            for number, (_, expression, _) in enumerate(dashboard_queries())))
        self.promtool("check", "rules", rules)

    def test_the_dashboard_shows_metrics_that_exist(self):
        documented = set(re.findall(r"^\| `([a-z_]+)` \|", (REPOSITORY / "docs" / "formats" / "metrics.md").read_text(), re.MULTILINE))
        for title, expression, _ in dashboard_queries():
            used = {re.sub("_bucket$", "", name) for name in re.findall(r"\b(?:lockstep|process)_[a-z_]+", expression)}
            self.assertTrue(used or "up{" in expression, title)
            self.assertLessEqual(used, documented, title)

    def test_the_dashboard_is_laid_out(self):
        board = json.loads(DASHBOARD.read_text())
        taken = {}
        self.assertEqual(len({panel["id"] for panel in board["panels"]}), len(board["panels"]))
        for panel in board["panels"]:
            place = panel["gridPos"]
            self.assertLessEqual(place["x"] + place["w"], 24, panel["title"])
            for cell in ((x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])):
                self.assertNotIn(cell, taken, f"{panel['title']} lies over {taken.get(cell)}")
                taken[cell] = panel["title"]
            if panel["type"] != "row":
                self.assertTrue(panel["description"] and panel["targets"] and panel["fieldConfig"]["defaults"]["unit"], panel["title"])
                self.assertEqual(panel["datasource"], {"type": "prometheus", "uid": "${source}"})
        self.assertEqual({variable["name"] for variable in board["templating"]["list"]}, {"source", "training", "node"})

    def promtool(self, *arguments, text=None):
        done = subprocess.run(["promtool", *map(str, arguments)], input=text, text=True, capture_output=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
