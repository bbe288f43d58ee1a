"""Shared data of all sections: the bundle, the machine and the remaining time."""
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
WARM_LIMIT_S = 180


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
            self.warm([module])
        return self.modules[module]

    def warm(self, modules):
        """Imports the modules, all at the same time. The first import reads gigabytes, so it must not count as part of a check.
        Returns the seconds of each import; None: the module is missing or took too long."""
        began = time.monotonic()
        found = {}
        running = {name: subprocess.Popen([self.python, "-c", f"import {name}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                   for name in modules}
        for name, process in running.items():
            try:
                self.modules[name] = process.wait(max(1, WARM_LIMIT_S - (time.monotonic() - began))) == 0
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                self.modules[name] = False
            found[name] = time.monotonic() - began if self.modules[name] else None
        return found

    def script(self, name, *args):
        # faulthandler prints Python's position after a crash.
        return [self.python, "-X", "faulthandler", str(HERE / name), *map(str, args)]
