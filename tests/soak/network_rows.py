"""A bad network between the daemon and the aggregator."""
import time

from captured import WHOLE
from row import Row

# Ranks with many records (1 to 2 MB/s). They may fall behind the wall clock, because the equation holds for them, too.
BUSY = ("--layers", "14", "--matmul", "20us", "--noise-ppm", "200000")


def under(turn, begin, end):
    """Makes the network bad at a random moment of the capture, and good again after it."""
    site = turn.site
    running = site.begin("2s")
    with site.fault():
        running.wait_begun()
        time.sleep(turn.draw.uniform(0, 2))
        begin(site.proxy)
        capture = running.finish()
    end(site.proxy)
    return capture


def check_whole(turn, capture):
    assert capture.code == WHOLE, f"not whole: {capture}\n{turn.site.errors('daemon')}"
    turn.most("capture of 2 s, s", capture.seconds, "{:.1f}")
    turn.site.recovered()


def slowed(**settings):
    """Returns a row's function: with these attributes of the proxy, a capture is whole and takes longer."""
    def run(turn):
        def begin(proxy):
            for name, value in settings.items():
                setattr(proxy, name, value)
        before = turn.site.proxy.forwarded_bytes
        check_whole(turn, under(turn, begin, lambda proxy: proxy.mend()))
        turn.most("MB through the proxy", (turn.site.proxy.forwarded_bytes - before) / 1e6, "{:.1f}")
    return run


def cut_and_reconnect(turn):
    """The connections end at once, and new ones are refused for up to 3 s."""
    def begin(proxy):
        proxy.cut()
        time.sleep(turn.draw.uniform(0, 3))
        proxy.mend()
    check_whole(turn, under(turn, begin, lambda proxy: None))


def half_open(turn):
    """New and old connections stay open, and nothing is forwarded for 5 s."""
    def begin(proxy):
        proxy.swallowing = True
        time.sleep(5)
        proxy.mend()
    capture = under(turn, begin, lambda proxy: None)
    assert capture.has_report(), str(capture)
    turn.count(capture.word())
    turn.most("capture of 2 s, s", capture.seconds, "{:.1f}")
    turn.site.recovered()


def half_open_for_ever(turn):
    """Nothing is forwarded from a moment of the capture on. The capture ends by itself."""
    site = turn.site
    running = site.begin("2s")
    with site.fault():
        running.wait_begun()
        time.sleep(turn.draw.uniform(0, 2))
        site.proxy.swallowing = True
        capture = running.finish(timeout=60)
    site.proxy.mend()
    assert capture.has_report(), str(capture)
    turn.count(capture.word())
    turn.most("capture of 2 s, s", capture.seconds, "{:.1f}")
    site.recovered()


def pulled_cable(turn):
    """The daemon's link goes down inside the capture, for 1 to 4 s. No packet says so."""
    site = turn.site
    running = site.begin("2s")
    with site.fault():
        running.wait_begun()
        time.sleep(turn.draw.uniform(0, 2))
        with site.cable.pulled():
            time.sleep(turn.draw.uniform(1, 4))
        capture = running.finish()
    check_whole(turn, capture)


PROXIED = {"proxied": True}
BUSY_PROXIED = {"proxied": True, "rank_args": BUSY}
ROWS = [
    Row("delay", "100 ms more in each direction between daemon and aggregator", slowed(delay_s=0.1), 20, PROXIED),
    Row("slow-network", "1 MB/s between daemon and aggregator, ranks with many records", slowed(bytes_per_s=1e6), 10, BUSY_PROXIED),
    Row("network-stalls", "1 % of the chunks of 16 KiB between daemon and aggregator wait for 0.5 s", slowed(stall_fraction=0.01), 20, PROXIED),
    Row("cut", "the connection of the daemon to the aggregator is cut inside the window, for up to 3 s", cut_and_reconnect, 20, PROXIED, short=True),
    Row("half-open", "the connection stays open for 5 s and nothing is forwarded", half_open, 10, PROXIED),
    Row("half-open-for-ever", "the connection stays open and nothing is forwarded until the capture has ended", half_open_for_ever, 10, PROXIED),
    Row("pulled-cable", "the daemon's network device is down for 1 to 4 s inside the window", pulled_cable, 10, {"cabled": True}, needs=("namespaces", "ip")),
]
