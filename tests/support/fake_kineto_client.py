#!/usr/bin/env python3
"""Acts as PyTorch with KINETO_USE_DAEMON: it asks the daemon for on-demand traces and writes them.

It follows docs/formats/kineto_ipc.md. It waits 90 ms for an answer, and takes a late answer for the answer
to the next question. Its profiler thread checks for work once per second. It drops requests that start too
soon or come while it is busy, and reports that only in its own log. Its parser is strict, and its paths
are confined. It writes FILE_<pid>.json.tmp and then renames it.

Its recording is a given trace file, shifted so that `--origin` is at the start of the window.
"""
import argparse
import ctypes
import gzip
import mmap
import os
import pathlib
import re
import signal
import socket
import struct
import sys
import threading
import time
import uuid

EVENTS, ACTIVITIES = 1, 2
ANSWER_WAITS, ANSWER_WAIT = 9, 0.01
TICK = 1.0
DEFAULT_WARMUP = 5


def log(text):
    print(f"[{time.time():.3f}] {text}", flush=True)


def be_a_gpu_process(folder):
    """Makes the daemon see initialised CUDA: maps a driver file, and opens the control device if the machine
    has one."""
    library = pathlib.Path(folder) / "libcuda.so.1"
    library.write_bytes(b"\x7fELF" + b"\0" * 4092)
    with open(library, "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    try:
        control = os.open("/dev/nvidiactl", os.O_RDWR)
    except OSError:
        control = None
    return mapped, control


class CuptiHolder:
    """Another tool in this process that holds CUPTI. CUPTI is that of the simulated stack in LD_LIBRARY_PATH.
    CUDA loads Lockstep's client, as under `lockstep run`."""

    class SubscriberParams(ctypes.Structure):
        _fields_ = [("struct_size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("holder", ctypes.c_char_p), ("holder_bytes", ctypes.c_size_t)]

    def __init__(self):
        self.cudart = ctypes.CDLL("libcudart.so.13", mode=ctypes.RTLD_GLOBAL)
        if self.cudart.cudaFree(None) != 0:
            raise RuntimeError("the simulated CUDA did not come up")
        self.cupti = ctypes.CDLL("libcupti.so.13")
        self.kept = []

    def must(self, what, result):
        if result != 0:
            raise RuntimeError(f"{what}: {result}")

    def subscribe(self, name):
        callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p)(lambda *_: None)
        params = self.SubscriberParams(ctypes.sizeof(self.SubscriberParams), name.encode(), None, 0)
        handle = ctypes.c_void_p()
        self.kept += [callback, params, handle]
        self.must("cuptiSubscribe_v2", self.cupti.cuptiSubscribe_v2(ctypes.byref(handle), callback, None, ctypes.byref(params)))

    def replace_clock(self):
        """Registers processor ticks as the clock, as torch.profiler does and never undoes."""
        callback = ctypes.CFUNCTYPE(ctypes.c_uint64)(time.monotonic_ns)
        self.kept.append(callback)
        self.must("cuptiActivityRegisterTimestampCallback", self.cupti.cuptiActivityRegisterTimestampCallback(callback))


class Fabric:
    """The client's socket: a datagram socket with its own name, abstract or in KINETO_IPC_SOCKET_DIR."""

    def __init__(self):
        name = f"dynoconfigclient{uuid.uuid4()}"
        folder = os.environ.get("KINETO_IPC_SOCKET_DIR")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        if folder:
            self.prefix = folder + "/"
            self.daemon = f"{folder}/dynolog".encode() + b"\0"
            self.socket.bind(f"{folder}/{name}")
            os.chmod(f"{folder}/{name}", 0o666)
        else:
            self.prefix = None
            self.daemon = b"\0dynolog\0"
            self.socket.bind(b"\0" + name.encode() + b"\0")
        self.socket.setblocking(False)

    def send(self, kind, payload):
        """Tries ten times with growing pauses, as the real client. Returns False without a daemon."""
        pause = 0.01
        for _ in range(10):
            try:
                self.socket.sendto(struct.pack("<Q32s", len(payload), kind) + payload, self.daemon)
                return True
            except (ConnectionRefusedError, FileNotFoundError, BlockingIOError):
                time.sleep(pause)
                pause *= 2
        return False

    def receive(self, waits=ANSWER_WAITS):
        for _ in range(waits + 1):
            try:
                datagram, sender = self.socket.recvfrom(65536)
            except BlockingIOError:
                time.sleep(ANSWER_WAIT)
                continue
            if self.prefix and not sender.rstrip("\0").startswith(self.prefix):
                log(f"an answer from {sender!r}: the real client ends the process here")
                os.abort()
            size, kind = struct.unpack_from("<Q32s", datagram)
            if size != len(datagram) - 40 or kind.rstrip(b"\0") != b"req":
                log(f"a damaged answer of {len(datagram)} bytes")
                continue
            return datagram[40:].decode()
        return ""


def parse(text):
    """Returns None for a line with more than one '=', at which the real parser gives up."""
    config = {}
    for line in text.split("\n"):
        line = line.split("#")[0].strip()
        if not line:
            continue
        if line.count("=") != 1:
            log(f"parse error: {line!r}")
            return None
        key, value = line.split("=")
        config[key] = value
    return config


def ancestors():
    pids, pid = [], os.getpid()
    while pid > 1 and len(pids) < 11:
        pids.append(pid)
        try:
            pid = int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            break
    return pids or [os.getpid()]


class Iterations:
    """A request by iterations. It begins at its start iteration. If that has passed, it begins at the next
    multiple."""

    def __init__(self, config):
        self.config = config
        self.start = int(config["PROFILE_START_ITERATION"])
        self.warmup = int(config.get("ACTIVITIES_WARMUP_ITERATIONS", 0))
        self.multiple = int(config.get("PROFILE_START_ITERATION_ROUNDUP", -1))
        self.count = int(config["ACTIVITIES_ITERATIONS"])
        self.began = False
        self.start_ns = None

    def step(self, iteration):
        """Returns True after the last iteration."""
        if not self.began:
            root = self.start - self.warmup
            if iteration < root:
                return False
            if iteration > root:
                self.start = iteration + self.warmup
                if self.multiple > 0:
                    self.start += -self.start % self.multiple
                if iteration != self.start - self.warmup:
                    return False
            self.began = True
        if self.start_ns is None and iteration >= self.start:
            self.start_ns = time.time_ns()
        return iteration >= self.start + self.count


class Client:
    def __init__(self, options):
        self.options = options
        self.fabric = Fabric()
        self.lock = threading.Lock()
        self.pending = None
        self.iterations = None  # a request by iterations that has not begun; libkineto calls itself idle until then
        self.iteration = -1
        self.active = False
        self.began = time.monotonic()
        self.skipped = 0

    def busy(self):
        with self.lock:
            mine = self.pending is not None or self.active
        return mine or time.monotonic() - self.began < self.options.busy_first

    def poll(self):
        kind = (0 if self.busy() else ACTIVITIES) if not self.options.old else EVENTS | ACTIVITIES
        pids = ancestors()
        if not self.fabric.send(b"req", struct.pack(f"<iiq{len(pids)}i", kind, len(pids), int(os.environ.get("SLURM_JOB_ID", 0)), *pids)):
            log("no daemon")
            return
        # A busy client leaves the answer in the socket for the next question.
        late = self.skipped < self.options.late_answers
        self.skipped += late
        text = "" if late else self.fabric.receive()
        if text:
            self.take(text)

    def take(self, text):
        config = parse(text)
        if config is None:
            return
        with self.lock:
            if self.pending is not None or self.active:
                log("dropped: busy")
                return
            if self.iterations is not None:
                log("dropped: another request waits for its iteration")
                return
            by_iteration = int(config.get("PROFILE_START_ITERATION", -1)) >= 0 and int(config.get("ACTIVITIES_ITERATIONS", 0)) > 0
            if by_iteration and self.iteration < 0:
                # A request with a duration would record for that duration, from a start of its own.
                if int(config.get("ACTIVITIES_DURATION_MSECS", 500)) == 0:
                    log("dropped: the program counts no iterations")
                    return
                by_iteration = False
            log("taken: " + text.replace("\n", " "))
            if by_iteration:
                self.iterations = Iterations(config)
            else:
                self.pending = config
        if self.options.die == "taken":
            os._exit(3)

    def target(self, config):
        name = config.get("ACTIVITIES_LOG_FILE", "")
        allowed = ["/tmp/"]
        if os.environ.get("KINETO_ONDEMAND_TRACE_DIR"):
            allowed.append(os.environ["KINETO_ONDEMAND_TRACE_DIR"].rstrip("/") + "/")
        if not any(name.startswith(a) for a in allowed) or ".." in name or self.options.refuse_path:
            log(f"path refused: {name}")
            return f"/tmp/libkineto_activities_{os.getpid()}.json"
        return name.removesuffix(".json") + f"_{os.getpid()}.json"

    def step(self, iteration):
        """The program reaches this iteration. PyTorch's optimizers make this call after each step."""
        with self.lock:
            self.iteration = iteration
            done = self.iterations
            if done is None:
                return
            over = done.step(iteration)
            self.active = self.active or done.began
            if not over:
                return
            self.iterations = None
        log(f"recorded iterations {done.start} to {iteration}")
        self.write(self.target(done.config), done.start_ns, done.config)
        with self.lock:
            self.active = False

    def count_steps(self):
        """Counts iterations by the clock, so that all ranks are in the same iteration, as in a job."""
        while True:
            time.sleep(self.options.step_seconds / 10)
            iteration = int((time.time() - self.options.epoch) / self.options.step_seconds)
            while self.iteration < iteration:
                self.step(self.iteration + 1 if self.iteration >= 0 else iteration)

    def profile(self):
        """The controller's thread. It checks for a request once per second."""
        while True:
            time.sleep(TICK)
            with self.lock:
                config, self.pending = self.pending, None
                self.active = config is not None
            if config is None:
                continue
            warmup = float(config.get("ACTIVITIES_WARMUP_PERIOD_SECS", DEFAULT_WARMUP))
            start = int(config["PROFILE_START_TIME"]) / 1000
            if start - time.time() < warmup:
                log(f"dropped: the start is {start - time.time():.2f} s ahead and warming up takes {warmup:g} s")
            else:
                end = start + int(config["ACTIVITIES_DURATION_MSECS"]) / 1000
                time.sleep(max(0, start - time.time()))
                if self.options.die == "capturing":
                    os._exit(3)
                time.sleep(max(0, end - time.time()))
                self.write(self.target(config), int(start * 1e9), config)
            with self.lock:
                self.active = False

    def write(self, path, start_ns, config):
        raw = pathlib.Path(self.options.trace).read_bytes()
        text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode()
        base = int(re.search(r'"baseTimeNanoseconds": (\d+)', text).group(1))
        text = text.replace(f'"baseTimeNanoseconds": {base}', f'"baseTimeNanoseconds": {base + start_ns - self.options.origin}', 1)
        if self.options.no_rank:
            text = re.sub(r'"distributedInfo": \{.*?\},\n', "", text, count=1, flags=re.S)
        text = text.replace("{", '{"trace_id": "%s", ' % config["REQUEST_TRACE_ID"], 1)
        content = gzip.compress(text.encode(), 1) if self.options.gzip else text.encode()
        if self.options.truncate:
            content = content[:len(content) // 2]
        with open(path + ".tmp", "wb") as file:
            half = len(content) // 2
            file.write(content[:half])
            file.flush()
            time.sleep(self.options.write_seconds)
            if self.options.die == "writing":
                os._exit(3)
            file.write(content[half:])
        os.rename(path + ".tmp", path)
        log(f"wrote {path}")

    def run(self):
        threading.Thread(target=self.profile, daemon=True).start()
        if self.options.step_seconds > 0:
            threading.Thread(target=self.count_steps, daemon=True).start()
        while True:
            self.poll()
            time.sleep(self.options.poll)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trace", help="what it records")
    parser.add_argument("--origin", type=int, default=0, help="the trace's time that falls on the start of the window, unix ns")
    parser.add_argument("--poll", type=float, default=0.3)
    parser.add_argument("--step-seconds", type=float, default=0, help="how long an iteration takes; 0: the program counts none")
    parser.add_argument("--epoch", type=float, default=0, help="when iteration 0 began, unix seconds")
    parser.add_argument("--write-seconds", type=float, default=0.5)
    parser.add_argument("--no-gpu", action="store_true", help="as a launcher that imports PyTorch")
    parser.add_argument("--old", action="store_true", help="a version that never says it is busy")
    parser.add_argument("--busy-first", type=float, default=0, help="seconds for which torch.profiler runs")
    parser.add_argument("--late-answers", type=int, default=0, help="questions whose answers it misses")
    parser.add_argument("--gzip", action="store_true")
    parser.add_argument("--truncate", action="store_true", help="the file is cut off and renamed all the same")
    parser.add_argument("--no-rank", action="store_true", help="the trace does not say whose it is")
    parser.add_argument("--refuse-path", action="store_true", help="a version that accepts another folder only")
    parser.add_argument("--cuda", action="store_true", help="the simulated CUDA runs and no tool holds CUPTI")
    parser.add_argument("--no-kineto", action="store_true", help="a program without PyTorch: it never asks")
    parser.add_argument("--cupti-clock", action="store_true", help="torch.profiler has run, and left CUPTI with its clock")
    parser.add_argument("--cupti-subscriber", metavar="NAME", help="a tool that is subscribed to CUPTI")
    parser.add_argument("--die", choices=["taken", "capturing", "writing"])
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    kept = None if options.no_gpu else be_a_gpu_process(os.environ["FAKE_GPU_FOLDER"])
    if options.cuda or options.cupti_clock or options.cupti_subscriber:
        holder = CuptiHolder()
        if options.cupti_subscriber:
            holder.subscribe(options.cupti_subscriber)
        if options.cupti_clock:
            holder.replace_clock()
    if options.no_kineto or "KINETO_USE_DAEMON" not in os.environ:
        log("it does not ask: KINETO_USE_DAEMON is not set, or it has no PyTorch")
        while True:
            signal.pause()
    log(f"pid {os.getpid()} asks{'' if kept else ', without a GPU'}")
    Client(options).run()


if __name__ == "__main__":
    sys.exit(main())
