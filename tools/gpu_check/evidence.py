"""What a run leaves behind: the table, and one archive with whatever is needed to understand a failure from afar."""
import io
import json
import os
import pathlib
import shutil
import subprocess
import tarfile
import time
import traceback
import zlib

REPOSITORY = "repository"  # folder of the archive that holds what belongs into the repository, under its paths there
VERDICTS = {True: "PASS", False: "FAIL", None: "LEFT OUT"}


class OutOfTime(BaseException):
    """A section's time, or the whole run's, is up. Not an Exception: no check may swallow it."""


class Table:
    """One row per check, written to OUT/results.md and OUT/results.json after each, so that a run that is killed has them."""

    def __init__(self, out, simulated):
        self.out, self.simulated, self.rows = out, simulated, []
        self.id, self.section = "", ""  # of the checks that follow: A1 to A16, and the function that makes them
        self.machine = {}  # what stands above the table
        self.began = time.monotonic()

    def check(self, name, ok, measured, expected):
        """ok None: it could not be checked here; `measured` says why."""
        self._add(name, VERDICTS[ok], measured, expected)
        return bool(ok)

    def fact(self, name, measured):
        """A number nobody knew before: neither right nor wrong."""
        self._add(name, "fact", measured, "")

    def judge(self, name, ok, measured, expected):
        """A check of what only a real GPU can show; simulated, its figure is a fact."""
        if self.simulated:
            self.fact(name, measured)
        else:
            self.check(name, ok, measured, expected)

    def left_out(self, name, why):
        self.check(name, None, why, "")

    def _add(self, name, verdict, measured, expected):
        name, measured = (" ".join(str(text).split()).replace("|", "/") for text in (name, measured))
        self.rows.append({"id": self.id, "section": self.section, "check": name, "verdict": verdict, "measured": measured,
                          "expected": expected, "at_s": round(time.monotonic() - self.began, 1)})
        print(f"{verdict:9}{self.id:4}{self.section}: {name}: {measured}" + (f"  (goal: {expected})" if expected else ""), flush=True)
        self.write()

    def good(self):
        """Something was checked, and nothing failed."""
        verdicts = {row["verdict"] for row in self.rows}
        return "PASS" in verdicts and "FAIL" not in verdicts

    def text(self):
        counts = {}
        for row in self.rows:
            counts[row["verdict"]] = counts.get(row["verdict"], 0) + 1
        lines = ["# gpu-check" + (" (simulated: says nothing about a GPU)" if self.simulated else ""), ""]
        lines += [f"- {name}: {value}" for name, value in self.machine.items()]
        lines += ["", ", ".join(f"{n} {verdict}" for verdict, n in sorted(counts.items())) + f"; {time.monotonic() - self.began:.0f} s", "",
                  "| id | what | result | figure | goal |", "|---|---|---|---|---|"]
        for r in sorted(self.rows, key=lambda row: int(row["id"][1:] or 0)):  # stable: within one id as they came
            left_out = r["verdict"] == "LEFT OUT"
            lines.append(f"| {r['id']} | {r['section']}: {r['check']} | {r['verdict']}{': ' + r['measured'] if left_out else ''} | "
                         f"{'' if left_out else r['measured']} | {r['expected']} |")
        return "\n".join(lines) + "\n"

    def write(self):
        (self.out / "results.md").write_text(self.text())
        (self.out / "results.json").write_text(json.dumps({"simulated": self.simulated, "machine": self.machine, "rows": self.rows},
                                                          indent=1) + "\n")


class Gathered:
    """Checks of several captures in one row of a table: the first that fails is told."""

    def __init__(self):
        self.passed, self.failures = 0, []

    def check(self, name, ok, measured, expected):
        if ok:
            self.passed += 1
        else:
            self.failures.append(f"{name}: {measured} (expected: {expected})")
        return bool(ok)

    def fact(self, name, measured):
        pass

    def tell(self, table, name):
        table.check(name, self.passed > 0 and not self.failures, f"{self.passed} of {self.passed + len(self.failures)} checks" +
                    "".join(f"; {failure}" for failure in self.failures[:3]), "all")


def run_logged(folder, name, command, timeout=30, env=None, started=lambda process: None):
    """Runs a command and keeps everything about it in folder/name.txt. Returns (exit code, stdout, stderr); the code is None
    when it did not end in time, or could not be started. `started` is handed the process, for whoever may have to end it."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [str(word) for word in command]
    began = time.monotonic()
    try:
        with subprocess.Popen(command, text=True, errors="replace", stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env,
                              stdin=subprocess.DEVNULL) as process:
            started(process)
            try:
                out, err = process.communicate(timeout=timeout)
                code = process.returncode
            except subprocess.TimeoutExpired:
                process.kill()
                out, err = process.communicate()
                code, err = None, err + f"\n[did not end within {timeout} s]"
            except BaseException:
                process.kill()
                raise
    except OSError as error:
        code, out, err = None, "", f"[{error}]"
    lines = [f"$ {' '.join(command)}", f"[exit {code}, {time.monotonic() - began:.2f} s, ended at {time.time():.3f}]", ""]
    (folder / f"{name}.txt").write_text("\n".join(lines) + out + (f"\n--- stderr\n{err}" if err.strip() else ""))
    return code, out, err


def last_line(*texts):
    for text in texts:
        lines = [line for line in text.strip().splitlines() if line.strip()]
        if lines:
            return lines[-1].strip()[:300]
    return ""


def snapshot(folder, pid, name, stacks=False):
    """What the kernel tells of a process that does not do what it should; `stacks`: and where a debugger, if there is one, finds its
    threads."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = []

    def add(path):
        try:
            data = pathlib.Path(path).read_bytes()[:200_000].replace(b"\0", b"\n").decode(errors="replace")
        except OSError as error:
            data = f"[{error}]"
        parts.append(f"=== {path}\n{data}")

    for file in ("status", "cmdline", "environ", "limits", "maps", "wchan"):
        add(f"/proc/{pid}/{file}")
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except OSError:
        tasks = []
    for task in tasks[:100]:
        for file in ("comm", "wchan", "syscall", "stack"):
            add(f"/proc/{pid}/task/{task}/{file}")
    (folder / f"{name}.txt").write_text("\n".join(parts))
    debugger = shutil.which("gdb") or shutil.which("cuda-gdb", path=os.environ.get("PATH", "") + ":/usr/local/cuda/bin")
    if stacks and debugger:
        run_logged(folder, f"{name}-stacks", [debugger, "-batch", "-p", pid, "-ex", "thread apply all bt 30"], timeout=20)


def broken(folder, name):
    """Keeps the traceback of the exception at hand; its last line."""
    folder.mkdir(parents=True, exist_ok=True)
    text = traceback.format_exc()
    (folder / f"{name}.txt").write_text(text)
    return last_line(text)


def _priority(path, work):
    """What the repository keeps, then small texts: without the rest they still tell the story; per-rank traces can be made again from
    records/."""
    parts = path.relative_to(work).parts
    if parts[0] == REPOSITORY:
        return -1, path.stat().st_size
    size = path.stat().st_size
    if "traces" in parts or path.suffix == ".pftrace":
        return 3, size
    if "records" in parts:
        return 2, size
    return (0, size) if size <= 1 << 20 else (1, size)


def write_archive(archive, work, extra, most_bytes=15 << 20):
    """OUT/gpu_check.tar.gz of everything under `work`, most telling first, at most `most_bytes`; what did not fit is named in
    left_out.txt inside it. Returns (bytes, names left out)."""
    chosen, left_out, used = [], [], 0
    files = [path for path in work.rglob("*") if path.is_file() and not path.is_symlink()]
    for path in list(extra) + sorted(files, key=lambda p: _priority(p, work)):
        try:
            data = path.read_bytes()
        except OSError as error:
            left_out.append(f"{path.name}: {error}")
            continue
        name = str(path.relative_to(work)) if work in path.parents else path.name
        # What gzip makes of it, and the header tar puts in front of it.
        cost = len(zlib.compress(data, 1)) + 600
        if used + cost > most_bytes:
            left_out.append(f"{name}: {len(data)} bytes")
            continue
        used += cost
        chosen.append((name, data))
    chosen.append(("left_out.txt", ("\n".join(left_out) + "\n").encode()))
    partial = archive.with_suffix(".partial")
    with tarfile.open(partial, "w:gz", compresslevel=6) as tar:
        for name, data in chosen:
            info = tarfile.TarInfo(f"gpu_check/{name}")
            info.size, info.mtime = len(data), int(time.time())
            tar.addfile(info, io.BytesIO(data))
    partial.rename(archive)
    return archive.stat().st_size, left_out
