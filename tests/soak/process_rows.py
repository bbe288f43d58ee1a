"""Parts that are killed, ended or stopped at a random moment of a capture, and clocks that are set."""
import os
import signal
import time

from captured import PARTIAL, SLACK_NS, WHOLE
from cluster import FREE_WITHIN_S, RANK_ARGS, Site
from row import Row

WINDOW_S = 1.5
STOP_S = 5.0


def hit(site, pid, number):
    """Sends a signal; a stop lasts for five seconds. Returns the time of the signal on the clock of a manifest."""
    at = time.clock_gettime_ns(time.CLOCK_REALTIME)
    os.kill(pid, number)
    if number == signal.SIGSTOP:
        time.sleep(STOP_S)
        os.kill(pid, signal.SIGCONT)
    return at


def strike(turn, part, number):
    """Hits a part at a random moment of a capture, from before the ranks are armed until the records have arrived."""
    site = turn.site
    running = site.begin(f"{WINDOW_S}s")
    moment = turn.draw.uniform(0, WINDOW_S + 0.8)
    with site.fault():
        time.sleep(moment)
        if part == "command" and running.process.poll() is not None:
            at = time.clock_gettime_ns(time.CLOCK_REALTIME)  # it had ended already
        else:
            at = hit(site, running.pid if part == "command" else site.pid(part), number)
            restart(turn, part, number)
        capture = running.finish()
    text = f"{part} {signal.Signals(number).name} after {moment:.2f} s; {capture}"
    turn.count(capture.word())
    if number == signal.SIGKILL and part in ("victim", "daemon"):
        check_cut(capture, at, text)
    # A capture without its command goes on to its end, or to the command's absence.
    site.recovered(not_before=running.began + WINDOW_S + FREE_WITHIN_S if part == "command" else 0.0)
    if part == "aggregator" and number != signal.SIGSTOP:
        check_kept(site, capture, text)
    turn.most("free after s", max(site.free_after_s), "{:.1f}")


def check_cut(capture, at, text):
    """A capture is not called whole if its rank or its daemon was killed inside the window. (After SIGTERM both go on for
    a while; then the balance at the end decides. The aggregator may have had all records.)"""
    if capture.code == WHOLE:
        _, t1, _ = capture.window()
        assert at >= t1 - SLACK_NS, f"called whole: {text}"


def restart(turn, part, number):
    """Starts a part that has ended again, as its supervisor would, up to a second later."""
    if number == signal.SIGSTOP or part == "command":
        return
    turn.site.wait_gone(part)
    time.sleep(turn.draw.uniform(0, 1))
    if part == "victim":
        turn.site.start_victim()
    else:
        turn.site.start(part)


def check_kept(site, capture, text):
    """The captures that the ended aggregator left are served by the next one."""
    for folder in site.kept():
        whole = (folder / "records" / "manifest.json").exists()
        try:
            site.check_fetchable(folder, must_be_partial=not whole)
        except AssertionError as failure:
            raise AssertionError(f"{failure}\n{text}") from None


def step_clock(turn):
    """CLOCK_REALTIME of the whole node is set in the middle of a capture, in turn forward and back."""
    step_ns = (1 if turn.number % 2 else -1) * turn.draw.choice((40_000_000, 3_600_000_000_000))
    settle_s = 6.0
    at = time.monotonic_ns() + int(settle_s * 1e9)
    preload = {"LD_PRELOAD": str(turn.programs.clock), "LOCKSTEP_TEST_CLOCK": f"0:0:{at}:{step_ns}:{at}"}
    clock = ("--clock-step-ns", str(step_ns), "--clock-step-at-ns", str(at))
    with Site(turn.programs, turn.work / "site", environment={"daemon": preload, "aggregator": preload}, rank_args=(*RANK_ARGS, *clock)) as site:
        left = at / 1e9 - time.monotonic()
        assert left > 1.0, "the machine was too slow to start the job before the step"
        time.sleep(left - 1.0)
        capture = site.capture("2s")
        assert capture.code == PARTIAL, f"step of {step_ns} ns: {capture}"
        assert "clock was set" in capture.text.replace("\n  ", " "), f"step of {step_ns} ns: {capture}"
        site.recovered()


PARTS = {"victim": "a rank", "daemon": "the daemon", "aggregator": "the aggregator", "command": "`lockstep trace`"}
SIGNALS = {signal.SIGKILL: ("kill", "kill -9 of"), signal.SIGTERM: ("end", "SIGTERM to"), signal.SIGSTOP: ("stop", "SIGSTOP for 5 s, then SIGCONT, of")}
IN_SHORT = {("daemon", signal.SIGKILL), ("aggregator", signal.SIGKILL), ("victim", signal.SIGKILL)}


def strike_row(part, number):
    word, text = SIGNALS[number]
    return Row(f"{word}-{'rank' if part == 'victim' else part}", f"{text} {PARTS[part]} at a random moment of a capture", lambda turn: strike(turn, part, number),
               times=17, site={"victim": True}, short=(part, number) in IN_SHORT)


ROWS = [strike_row(part, number) for part in PARTS for number in SIGNALS] + [
    Row("clock-step", "CLOCK_REALTIME of the node set by 40 ms or by 1 h, forward and back, inside the window", step_clock, times=8),
]
