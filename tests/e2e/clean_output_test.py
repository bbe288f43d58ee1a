"""Gives every view traces whose names control a terminal. What the CLI prints must not have such characters. Data in CSV and JSON
must have the names unchanged."""
import base64
import csv
import gzip
import io
import json
import marshal
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import urllib.parse

BIN = pathlib.Path(sys.argv.pop(1)).resolve()
LOCKSTEP = str(BIN / "lockstep")
# Escape sequences with 7 and 8 bits, a return, a line end, DEL, marks of direction, a separator of lines.
EVIL = "A\x1b[31mB\x1b]0;title\x07C\x9b2JD\rE\nF\x7fG\u202eH\u2066I\u2069J\u2028K"
BAD = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
# Commands that read no capture.
OTHER = {"run", "trace", "status", "top", "hang", "record", "doctor", "health", "config", "job", "node", "token", "audit", "history", "completion", "man", "export"}


def kineto(rank):
    rows, correlation = [], 0

    def row(cat, name, ts, dur, tid, **args):
        rows.append({"ph": "X", "cat": cat, "name": name, "pid": 7 if cat != "kernel" else 0, "tid": tid, "ts": ts, "dur": dur,
                     "args": args})

    for step in range(4):
        at = step * 10000
        row("user_annotation", f"ProfilerStep#{step}", at, 9000, 1)
        row("user_annotation", f"range {EVIL}", at + 5, 8000, 1)
        row("python_function", f"nn.Module: {EVIL}_0", at + 10, 7900, 1, **{"Python id": 2 * step + 1, "Python module id": 0})
        row("cpu_op", f"aten::{EVIL}", at + 20, 5000, 1, **{"External id": step + 1, "Input Dims": [[8, 8]], "Input type": [EVIL]})
        for name in (f"gemm {EVIL}", f"ncclDevKernel_AllReduce_Sum_f32_RING_LL {EVIL}"):
            correlation += 1
            row("cuda_runtime", "cudaLaunchKernel", at + 30, 20, 1, correlation=correlation, **{"External id": step + 1})
            row("kernel", name, at + 100 + 3000 * (correlation % 2), 2900, 7, device=0, context=1, stream=7, correlation=correlation,
                grid=[1, 1, 1], block=[32, 1, 1], **{"External id": step + 1})
        row("cuda_runtime", EVIL, at + 6200, 2500, 1, correlation=0)
        row("cpu_instant_event", "[memory]", at + 40, 0, 1,
            **{"Device Type": 1, "Device Id": 0, "Addr": 4096, "Bytes": 512, "Total Allocated": 512, "Total Reserved": 1024})
    return {"schemaVersion": 1, "distributedInfo": {"rank": rank, "world_size": 2, "backend": EVIL},
            "deviceProperties": [{"id": 0, "name": EVIL, "numSms": 80}], "traceEvents": rows, "traceName": EVIL}


def timeline():
    """Names of the job, hosts, communicators and programs, which Kineto traces lack."""
    evil = urllib.parse.quote(EVIL, safe="")
    lines = ["lockstep-timeline 1", f"job {evil}", "world 2", f"note {evil}", f"host {evil}a {evil}a", f"host {evil}b {evil}b",
             f"group {evil} {evil} 0-1", f"name {evil}"]
    for rank in range(2):
        lines += [f"rank {rank} host={rank} program={evil} gpu={evil}"]
        for step in range(6):
            at = 1700000000000000000 + step * 40000000
            work = 20000000 + 9000000 * rank
            lines += [f"s {step} {at} 39000000", f"k 1 0 {at + 1000} {work}",
                      f"c 2 0 {at + work + 2000} {30000000 - work + 1000000} 0 all_reduce seq={step} bytes=4096"]
        lines.append(f"l import kernel 3 {evil} 1700000000000000000 5")
    return "\n".join(lines + ["end", ""])


class CleanOutput(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="lk-clean")
        self.addCleanup(self.folder.cleanup)
        root = pathlib.Path(self.folder.name)
        self.traces = root / f"traces{EVIL}"
        self.traces.mkdir()
        for rank in range(2):
            (self.traces / f"rank_{rank}{EVIL}.json").write_text(json.dumps(kineto(rank)))
        # A name that is not UTF-8.
        (self.traces / b"\xff\x1b.json".decode(errors="surrogateescape")).write_bytes(b"\x1b[31m")
        self.timeline = root / "job.timeline"
        self.timeline.write_text(timeline())
        self.profiles = [root / f"rank_{rank}{EVIL}.cprofile" for rank in range(2)]
        for path in self.profiles:
            path.write_bytes(marshal.dumps({(f"{EVIL}.py", 1, EVIL): (3, 3, 0.5, 0.75, {})}))

    def run_cli(self, *words):
        return subprocess.run([LOCKSTEP, *words], capture_output=True, timeout=60)

    def check(self, *words, codes=(0,)):
        done = self.run_cli(*words)
        self.assertIn(done.returncode, codes, (words, done.stderr))
        for stream in (done.stdout, done.stderr):
            text = stream.decode()  # valid UTF-8
            found = BAD.search(text)
            self.assertIsNone(found, (words, found and text[max(0, found.start() - 80):found.end() + 20]))
        return done.stdout.decode()

    def views(self):
        text = self.run_cli("--help").stdout.decode()
        commands = re.findall(r"^  ([a-z]+) {2,}", text[text.index("Subcommands:"):], re.M)
        return [command for command in commands if command not in OTHER]

    def choices(self, command, flag):
        found = re.search(rf"{flag} (?:TEXT|LIST):\{{([^}}]*)\}}", self.run_cli(command, "--help").stdout.decode())
        return found.group(1).split(",") if found else []

    def test_every_view_prints_no_control_characters(self):
        views = self.views()
        self.assertLessEqual({"ops", "kernels", "diff", "flame", "profile", "report", "analyze", "whatif"}, set(views))
        shown = 0
        for command in views:
            words = {"profile": [str(path) for path in self.profiles], "diff": [str(self.traces), str(self.traces)]}.get(
                command, [str(self.traces)])
            variants = [["--table", table] for table in self.choices(command, "--table")]
            variants += [["--by", by] for by in self.choices(command, "--by")]
            variants += [["--group-by", group] for group in self.choices(command, "--group-by")]
            if command == "whatif":
                variants = [["--fix", "rank=0"], ["--fix", EVIL]]
            for variant in variants or [[]]:
                # A grouping may need another table, and a fix with such a name is an error.
                text = self.check(command, *words, *variant, codes=(0, 2) if variant and variant[0] in ("--group-by", "--fix") else (0,))
                shown += "?[31m" in text
                if command in ("analyze", "report", "whatif", "flame"):
                    continue
                self.check(command, *words, *variant, "--plain", codes=(0, 2))
        self.assertGreater(shown, 15, "views that show a hostile name")

    def test_reports_print_no_control_characters(self):
        for path in (self.traces, self.timeline):
            text = self.check("analyze", str(path))
        self.assertIn("job A?[31mB?]0;title?C?2JD?E?F?G?H?I?J?K", text.replace("\n  ", " "))
        self.check("distributed", str(self.timeline))
        self.check("whatif", str(self.timeline), "--fix", "rank=1")

    def test_errors_print_no_control_characters(self):
        for words in (["ops", EVIL], ["analyze", str(self.traces / EVIL)], ["ops", str(self.traces), "--sort-by", EVIL],
                      ["ops", str(self.traces), "--where", EVIL], [EVIL], ["ops", f"--{EVIL}"],
                      ["export", str(self.traces), "--format", EVIL, "-o", "x"], ["kernels", str(self.traces), "--ranks", EVIL],
                      ["diff", str(self.profiles[0]), EVIL], ["profile", str(self.timeline)]):
            self.check(*words, codes=(1, 2, 4, 5, 6))

    def test_a_page_has_no_marks_of_direction(self):
        page = self.run_cli("analyze", str(self.timeline), "--format", "html").stdout.decode()
        data = gzip.decompress(base64.b64decode(re.search(r"H4sI[A-Za-z0-9+/=]+", page).group()))
        text = data[4:4 + int.from_bytes(data[:4], "little")].decode()
        self.assertIn("A\\u001b[31mB", text)
        self.assertIsNone(BAD.search(text.replace("\n", "")))

    def test_data_keeps_the_names(self):
        done = self.run_cli("kernels", str(self.traces), "--csv")
        names = [row["name"] for row in csv.DictReader(io.StringIO(done.stdout.decode(), newline=""))]
        self.assertIn(f"gemm {EVIL}", names)
        table = json.loads(self.run_cli("kernels", str(self.traces), "--json").stdout)
        self.assertIn(f"gemm {EVIL}", [row["name"] for row in table["rows"]])


if __name__ == "__main__":
    unittest.main()
