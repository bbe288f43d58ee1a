"""Shared data of all sections: the bundle, the machine and the remaining time."""
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent


class Setup:
    """Shared data of all sections."""

    def __init__(self, bundle, work, simulate):
        self.bundle, self.work, self.simulate = bundle, work, simulate
        self.python = sys.executable
        self.env = {}  # for every program and daemon; has LOCKSTEP_CUPTI_LIB if the client does not find CUPTI by itself
        self.program_env = {"PYTHONUNBUFFERED": "1"}
        if simulate:
            lib = simulate.parent / "lib"
            self.program_env.update({"LD_LIBRARY_PATH": str(lib / "sim_cuda"),
                                     "LOCKSTEP_SIM_CUPTI": str(lib / "liblockstep_sim_cupti.so")})
        self.cupti = None  # path of a libcupti on this machine, set by the section facts
        self.deadline = None  # end of the whole run
        self.section_deadline = None
        self.modules = {}
        self.kept = []  # (name, capture folder) of possible golden test data

    def left(self):
        return self.deadline - time.monotonic()

    def section_left(self):
        return self.section_deadline - time.monotonic()

    def has(self, module):
        """Returns whether the machine's Python can import the module. In a simulation it returns False."""
        if self.simulate:
            return False
        if module not in self.modules:
            done = subprocess.run([self.python, "-c", f"import {module}"], capture_output=True)
            self.modules[module] = done.returncode == 0
        return self.modules[module]

    def script(self, name, *args):
        # faulthandler prints Python's position after a crash.
        return [self.python, "-X", "faulthandler", str(HERE / name), *map(str, args)]
