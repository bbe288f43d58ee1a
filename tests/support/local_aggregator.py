"""A permanent aggregator on a Unix socket."""
import pathlib
import subprocess


class LocalAggregator:
    """`folder` has its socket, its captures (state/captures) and its log. It ends with the test case."""

    def __init__(self, test, bin_dir, folder, *settings):
        self.folder = pathlib.Path(folder)
        self.address = f"unix:{self.folder}/aggregator.sock"
        with open(self.folder / "aggregator.log", "a") as log:
            self.process = subprocess.Popen([pathlib.Path(bin_dir) / "lockstep-aggregator", "--listen", self.address, "--state-dir",
                                             self.folder / "state", *settings],
                                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log)
        test.addCleanup(self.process.wait, 30)
        test.addCleanup(self.process.terminate)

    def log_text(self):
        return (self.folder / "aggregator.log").read_text()
