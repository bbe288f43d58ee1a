"""A network of its own for the daemon, behind a cable that can be pulled."""
import contextlib
import os
import subprocess


class Cable:
    """A named network namespace, and the pair of devices that connects it. Needs root and iproute2."""

    def __init__(self):
        self.name, self.device = f"lksoak{os.getpid()}", "lksoak"
        self.outer, inside = "10.78.0.1", "10.78.0.2"  # in a namespace of the test's own
        self.ip("netns", "add", self.name)
        self.ip("link", "add", self.device, "type", "veth", "peer", "name", "eth0", "netns", self.name)
        self.ip("addr", "add", f"{self.outer}/30", "dev", self.device)
        self.ip("link", "set", self.device, "up")
        for words in (("addr", "add", f"{inside}/30", "dev", "eth0"), ("link", "set", "eth0", "up"), ("link", "set", "lo", "up")):
            self.ip("-n", self.name, *words)

    def words(self):
        """Returns the words before a program that runs behind the cable."""
        return ("ip", "netns", "exec", self.name)

    @contextlib.contextmanager
    def pulled(self):
        self.ip("link", "set", self.device, "down")
        yield
        self.ip("link", "set", self.device, "up")

    def close(self):
        self.ip("netns", "del", self.name)
        # The kernel removes the devices a little later.
        subprocess.run(["ip", "link", "del", self.device], capture_output=True)

    @staticmethod
    def ip(*words):
        subprocess.run(["ip", *words], check=True)
