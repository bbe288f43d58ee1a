"""Many clients, and few resources."""
import contextlib
import json
import os
import pathlib
import shutil
import socket
import statistics
import time

from accounting import accounts_of
from captured import WHOLE
from cluster import Site, temporary
from live_job import truths_of
from row import Row
from waiting import wait_until

DESCRIPTORS = ("prlimit", "--nofile=64:64")
# Address space that a program may write, without the rings. Each thread's stack counts with its full 8 MiB.
MEMORY = ("prlimit", f"--data={256 << 20}")
SLOW_RANK = ("--time-scale", "100", "--microbatches", "1")
MANY_RANKS, MANY_DAEMONS = 200, 256


def processor_s(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def silent(open_one, number):
    """Opens connections that send nothing. Returns those that were accepted."""
    with contextlib.ExitStack() as stack:
        opened = []
        for _ in range(number):
            with contextlib.suppress(OSError):
                opened.append(stack.enter_context(open_one()))
        yield opened


def unix_client(path):
    client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        client.connect(str(path))
    except OSError:
        client.close()
        raise
    return client


def few_descriptors(turn):
    """Whole captures with 64 descriptors; then silent clients of both servers use them all up. The servers wait without
    using the processor, and serve again afterwards."""
    site = turn.site
    turn.most("descriptors of the daemon", site.descriptors("daemon"))
    turn.most("descriptors of the aggregator", site.descriptors("aggregator"))
    host, _, port = site.address.rpartition(":")
    with site.fault(), silent(lambda: unix_client(site.job.socket), 100), silent(lambda: socket.create_connection((host, int(port)), 2), 100):
        began = {name: processor_s(site.pid(name)) for name in ("daemon", "aggregator")}
        time.sleep(2)
        for name, before in began.items():
            used = (processor_s(site.pid(name)) - before) / 2
            assert used < 0.5, f"the {name} uses {used:.0%} of a processor while it has no descriptor"
            turn.most(f"processor of the {name}, %", used * 100, "{:.0f}")
    site.recovered()


def little_memory(turn):
    """Captures are whole with a limit on the memory of both servers."""
    site = turn.site
    with site.fault():
        site.whole_capture("2s")
    for name in ("daemon", "aggregator"):
        turn.most(f"{name}, MiB", site.resident_kib(name) // 1024)


def silent_clients(turn):
    """1,000 clients of the daemon's socket that send nothing. A capture beside them is whole, and they leave nothing."""
    site = turn.site
    before = site.descriptors("daemon")
    with site.fault(), silent(lambda: unix_client(site.job.socket), 1000) as clients:
        turn.most("accepted", len(clients))
        site.whole_capture("1s")
        turn.most("descriptors of the daemon", site.descriptors("daemon"))
    wait_until(lambda: site.descriptors("daemon") <= before + 2, "the descriptors' end", lambda: str(site.descriptors("daemon")), 20)
    site.recovered()


def many_ranks(turn):
    """200 ranks of one job on one daemon. Each is a process without a launcher."""
    with Site(turn.programs, turn.work / "site", job=False, ranks=MANY_RANKS) as site, contextlib.ExitStack() as stack:
        truth = turn.work / "truth"
        truth.mkdir()
        rank = [site.programs.bin / "lockstep", "run", "--", site.programs.bin / "lockstep-sim-rank", "--forever", "--seed", "11", *SLOW_RANK]
        stack.callback(lambda: [site.stop(f"rank{number}") for number in range(MANY_RANKS)])
        for number in range(MANY_RANKS):
            site.spawn(f"rank{number}", [*rank, "--truth", truth / str(number)],
                       {"LOCKSTEP_RANK": str(number), "LOCKSTEP_WORLD_SIZE": str(MANY_RANKS), "LOCKSTEP_JOB": "soak", "OMPI_MCA_ess_singleton_isolated": "1"})
        began = time.monotonic()
        wait_until(lambda: len(set(site.seen_ranks())) == MANY_RANKS, f"{MANY_RANKS} ranks", lambda: f"{len(site.seen_ranks())}\n{site.errors('rank0')}", 180)
        turn.most("all registered after s", time.monotonic() - began, "{:.0f}")
        capture = site.capture("3s", "--arm-timeout", "60s")
        turn.most("daemon, MiB", site.resident_kib("daemon") // 1024)
        for process in [site.processes[f"rank{number}"] for number in range(MANY_RANKS)]:
            assert process.poll() is None, "a rank ended"
            process.terminate()
        for number in range(MANY_RANKS):
            site.wait_gone(f"rank{number}", 120)
        assert capture.code == 0, str(capture)
        check_many(turn, capture, truth)


def check_many(turn, capture, truth):
    """Each process takes itself for rank 0 of 1, so each has its own folder of truth files."""
    entries = accounts_of(capture.folder, {number: truths_of(truth / str(number))[0] for number in range(MANY_RANKS)})
    ranks = {entry.rank for entry in entries}
    assert len(ranks) == MANY_RANKS, f"records of {len(ranks)} ranks"
    bad = [entry for entry in entries if not entry.balanced()]
    assert not bad, str(bad[:5])
    turn.most("stored records", sum(entry.stored for entry in entries))
    turn.most("lost records", sum(entry.lost for entry in entries))


def many_daemons(turn):
    """256 daemons at one aggregator, each a real lockstepd with its own node id. A job's capture is whole meanwhile."""
    site = turn.site
    before = site.resident_kib("aggregator")
    with contextlib.ExitStack() as stack:
        # The path of a socket has at most 107 bytes.
        folder = pathlib.Path(stack.enter_context(temporary("lk-")))
        names = [f"d{number}" for number in range(MANY_DAEMONS - 1)]
        stack.callback(lambda: [site.stop(name) for name in names])
        began = time.monotonic()
        for name in names:
            (folder / name).mkdir(mode=0o700)
            site.spawn(name, [site.programs.bin / "lockstepd", "--socket", folder / name / "s", "--node-id", name, "--node-name", name, "--kineto", "off",
                              "--aggregator", site.address, "--token-file", site.token, "--log-level", "error"])
        wait_until(lambda: connected(site) == MANY_DAEMONS, f"{MANY_DAEMONS} daemons", lambda: str(connected(site)), 180)
        turn.most("all connected after s", time.monotonic() - began, "{:.0f}")
        with site.fault():
            for _ in range(3):
                capture = site.whole_capture("1s")
                turn.most("capture of 1 s, s", capture.seconds, "{:.1f}")
        turn.most("aggregator, MiB", site.resident_kib("aggregator") // 1024)
        turn.most("aggregator grew by MiB", (site.resident_kib("aggregator") - before) // 1024)
        assert site.resident_kib("aggregator") < 1 << 20, "the aggregator uses more than 1 GiB"
    site.recovered()


def connected(site):
    done = site.cli("status", *site.reach, "--format", "json", timeout=120)
    return len(json.loads(done.stdout)["daemons"]) if done.returncode == 0 else 0


def many_captures(turn):
    """One short capture of 1,000. A busy machine may begin it late, which is stated; the servers' descriptors and memory
    stay flat in the second half."""
    site = turn.site
    with site.fault():
        capture = site.begin("200ms").finish()
    assert capture.code == WHOLE or capture.began_late(), str(capture)
    turn.count("whole" if capture.code == WHOLE else "began late")
    shutil.rmtree(capture.folder)
    site.captures.clear()
    turn.series.append([value for name in SERVERS for value in (site.descriptors(name), site.resident_kib(name))])
    if turn.last:
        check_flat(turn, [list(column) for column in zip(*turn.series[len(turn.series) // 2:])])


def check_flat(turn, columns):
    numbers = range(len(columns[0]))
    for server, descriptors, resident_kib in zip(SERVERS, columns[::2], columns[1::2]):
        turn.set(f"{server}, second half", f"{descriptors[0]} to {descriptors[-1]} descriptors, {resident_kib[0] / 1024:.1f} to {resident_kib[-1] / 1024:.1f} MiB")
        if len(numbers) < 100:
            continue
        slopes = [statistics.linear_regression(numbers, column).slope for column in (descriptors, resident_kib)]
        turn.set(f"{server}, slope per 1,000 captures", f"{slopes[0] * 1000:+.1f} descriptors, {slopes[1] * 1000 / 1024:+.2f} MiB")
        assert abs(slopes[0]) < 0.005, f"the {server}'s descriptors: {slopes[0]:+.4f} per capture"
        assert slopes[1] < MOST_KIB_PER_CAPTURE, f"the {server}'s memory: {slopes[1]:+.2f} KiB per capture"


SERVERS = ("daemon", "aggregator")
MOST_KIB_PER_CAPTURE = 1.0

KEEP = ("--keep-captures", "10")
ROWS = [
    Row("64-descriptors", "64 descriptors for each server, and 100 silent clients of each", few_descriptors, 10, {"daemon": DESCRIPTORS, "aggregator": DESCRIPTORS},
        short=True),
    Row("little-memory", "256 MiB of data for each server (RLIMIT_DATA)", little_memory, 10, {"daemon": MEMORY, "aggregator": MEMORY}),
    Row("silent-clients", "1,000 clients of the daemon that send nothing", silent_clients, 10, {}),
    Row("200-ranks", "200 ranks on one daemon", many_ranks, 3),
    Row("256-daemons", "256 daemons (real `lockstepd` processes) at one aggregator", many_daemons, 3, {}),
    Row("1000-captures", "1,000 short captures in a row", many_captures, 1000, {"aggregator_args": KEEP}),
]
