"""What all sections share: the bundle, the machine, the time that is left."""
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent


class Setup:
    """What all sections share."""

    def __init__(self, bundle, work, simulate):
        self.bundle, self.work, self.simulate = bundle, work, simulate
        self.python = sys.executable
        self.env = {}  # for every program and daemon; LOCKSTEP_CUPTI_LIB where the client does not find CUPTI by itself
        self.program_env = {"PYTHONUNBUFFERED": "1"}
        if simulate:
            lib = simulate.parent / "lib"
            self.program_env.update({"LD_LIBRARY_PATH": str(lib / "sim_cuda"),
                                     "LOCKSTEP_SIM_CUPTI": str(lib / "liblockstep_sim_cupti.so")})
        self.cupti = None  # a libcupti of this machine, once the facts have found one
        self.deadline = None  # of the whole run
        self.section_deadline = None
        self.modules = {}
        self.kept = []  # (name, capture folder): what may become golden test data

    def left(self):
        return self.deadline - time.monotonic()

    def section_left(self):
        return self.section_deadline - time.monotonic()

    def has(self, module):
        """Whether the machine's Python can import it; simulated, nothing is asked of any."""
        if self.simulate:
            return False
        if module not in self.modules:
            done = subprocess.run([self.python, "-c", f"import {module}"], capture_output=True)
            self.modules[module] = done.returncode == 0
        return self.modules[module]

    def script(self, name, *args):
        # A crash leaves where Python was.
        return [self.python, "-X", "faulthandler", str(HERE / name), *map(str, args)]
