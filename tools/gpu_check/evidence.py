"""Writes the results of a run: the table, and one archive with all data that help to explain a failure
remotely."""
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

REPOSITORY = "repository"  # folder of the archive with the files for the repository, under their paths there
VERDICTS = {True: "PASS", False: "FAIL", None: "LEFT OUT"}


class OutOfTime(BaseException):
    """The time of a section or of the whole run is over. It is not an Exception, so that no check can catch
    it."""


class Table:
    """One row per check. Each row is written to OUT/results.md and OUT/results.json at once, so that a killed
    run keeps them."""

    def __init__(self, out, simulated):
        self.out, self.simulated, self.rows = out, simulated, []
        self.id, self.section = "", ""  # of the next checks: A1 to A19, and the section's function
        self.machine = {}  # lines above the table
        self.began = time.monotonic()

    def check(self, name, ok, measured, expected):
        """An `ok` of None means that the check was not possible here. `measured` states the reason."""
        self._add(name, VERDICTS[ok], measured, expected)
        return bool(ok)

    def fact(self, name, measured):
        """Adds a measured number that is neither right nor wrong."""
        self._add(name, "fact", measured, "")

    def judge(self, name, ok, measured, expected):
        """Adds a check that only a real GPU can pass. In a simulation its figure is a fact."""
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
        """Returns whether a check passed and none failed."""
        verdicts = {row["verdict"] for row in self.rows}
        return "PASS" in verdicts and "FAIL" not in verdicts

    def text(self):
        counts = {}
        for row in self.rows:
            counts[row["verdict"]] = counts.get(row["verdict"], 0) + 1
        lines = ["# gpu-check" + (" (simulated: not valid for a GPU)" if self.simulated else ""), ""]
        lines += [f"- {name}: {value}" for name, value in self.machine.items()]
        lines += ["", ", ".join(f"{n} {verdict}" for verdict, n in sorted(counts.items())) + f"; {time.monotonic() - self.began:.0f} s", "",
                  "| id | what | result | figure | goal |", "|---|---|---|---|---|"]
        for r in sorted(self.rows, key=lambda row: int(row["id"][1:] or 0)):  # the sort is stable and keeps the order within an id
            left_out = r["verdict"] == "LEFT OUT"
            lines.append(f"| {r['id']} | {r['section']}: {r['check']} | {r['verdict']}{': ' + r['measured'] if left_out else ''} | "
                         f"{'' if left_out else r['measured']} | {r['expected']} |")
        return "\n".join(lines) + "\n"

    def write(self):
        (self.out / "results.md").write_text(self.text())
        (self.out / "results.json").write_text(json.dumps({"simulated": self.simulated, "machine": self.machine, "rows": self.rows},
                                                          indent=1) + "\n")


class CombinedChecks:
    """Collects the checks of several captures into one row of a table. The row shows the first failures."""

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

    def add_row(self, table, name):
        table.check(name, self.passed > 0 and not self.failures, f"{self.passed} of {self.passed + len(self.failures)} checks" +
                    "".join(f"; {failure}" for failure in self.failures[:3]), "all")


def run_logged(folder, name, command, timeout=30, env=None, started=lambda process: None):
    """Runs a command and logs everything about it in folder/name.txt. Returns (exit code, stdout, stderr).
    The code is None if the command did not end in time or could not start. `started` receives the process,
    so that the caller can end it."""
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
    """Stores the kernel's information about a process that misbehaves. With `stacks`, a debugger adds the
    stacks of its threads if one is installed."""
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
    """Stores the traceback of the current exception. Returns its last line."""
    folder.mkdir(parents=True, exist_ok=True)
    text = traceback.format_exc()
    (folder / f"{name}.txt").write_text(text)
    return last_line(text)


def _priority(path, work):
    """Returns the order of a file in the archive. Files for the repository come first, then small texts,
    which explain most failures. Traces come last, because they can be made again from records/."""
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
    """Writes OUT/gpu_check.tar.gz from the files under `work`, with the most useful ones first and at most
    `most_bytes`. Its left_out.txt names the files that did not fit. Returns (bytes, names left out)."""
    chosen, left_out, used = [], [], 0
    files = [path for path in work.rglob("*") if path.is_file() and not path.is_symlink()]
    for path in list(extra) + sorted(files, key=lambda p: _priority(p, work)):
        try:
            data = path.read_bytes()
        except OSError as error:
            left_out.append(f"{path.name}: {error}")
            continue
        name = str(path.relative_to(work)) if work in path.parents else path.name
        # The size after gzip and the size of a tar header.
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
