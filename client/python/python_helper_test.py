"""Tests python_helper.py alone, and like the client: as text, in its own dictionary."""
import builtins
import cProfile
import io
import marshal
import os
import pathlib
import pstats
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parent / "python_helper.py"


def helper():
    module = {"__builtins__": builtins}
    exec(compile(SOURCE.read_text(), "<lockstep>", "exec"), module)
    return module


def leaf(n):
    return sum(i for i in range(n))


def work(n, depth=2):
    leaf(n)
    if depth:
        work(n, depth - 1)


def stats_of(profile):
    with tempfile.NamedTemporaryFile(suffix=".cprofile") as file:
        file.write(profile)
        file.flush()
        return pstats.Stats(file.name, stream=io.StringIO())


class PythonHelper(unittest.TestCase):
    def tearDown(self):
        self.assertIsNone(sys.getprofile(), "a profiler is left on")

    def test_counts_the_same_as_cprofile(self):
        ours = helper()
        self.assertIsNone(ours["begin"]())
        work(2000)
        profile = ours["end"]()
        theirs = cProfile.Profile()
        theirs.enable()
        work(2000)
        theirs.disable()
        theirs.create_stats()
        mine, reference = stats_of(profile).stats, theirs.stats
        own = {key: row for key, row in mine.items() if key[0] == __file__}
        expected = {key: row for key, row in reference.items() if key[0] == __file__}
        self.assertEqual(set(own), set(expected))
        for key, (primitive, calls, self_time, total, callers) in expected.items():
            self.assertEqual(own[key][:2], (primitive, calls), key)
            self.assertEqual(set(c for c in own[key][4] if c[0] == __file__), set(c for c in callers if c[0] == __file__), key)
            for caller, row in callers.items():
                if caller[0] == __file__:
                    self.assertEqual(own[key][4][caller][:2], row[:2], (key, caller))
            self.assertAlmostEqual(own[key][3], total, delta=0.05)
            self.assertLessEqual(own[key][2], own[key][3] + 1e-9)

    def test_excludes_itself_from_the_profile(self):
        ours = helper()
        ours["begin"]()
        leaf(10)
        stats = stats_of(ours["end"]())
        self.assertFalse([k for k in stats.stats if k[0] == "<lockstep>" or "_lsprof" in k[2]], list(stats.stats))
        for row in stats.stats.values():
            self.assertFalse([c for c in row[4] if c[0] == "<lockstep>"])
        stats.print_callers()
        stats.sort_stats("tottime").print_stats()

    def test_profiles_after_the_starting_function_returns(self):
        ours = helper()

        def inner():
            ours["begin"]()
            leaf(100)

        def outer():
            inner()
            leaf(100)

        outer()
        leaf(100)
        stats = stats_of(ours["end"]()).stats
        rows = {key[2]: row for key, row in stats.items()}
        self.assertEqual(rows["leaf"][1], 3)
        self.assertNotIn("inner", rows, "it was entered before the profile began")
        self.assertNotIn("outer", rows)

    def test_does_not_replace_another_profiler(self):
        ours = helper()
        other = cProfile.Profile()
        other.enable()
        try:
            text = ours["begin"]()
        finally:
            other.disable()
        self.assertRegex(text, "^another profiler is active: c?Prof")
        self.assertIsInstance(ours["end"](), str)
        events = []
        sys.setprofile(lambda *event: events.append(event[1]))
        text = ours["begin"]()
        leaf(1)
        sys.setprofile(None)
        self.assertEqual(text, "another profiler is active: function")
        self.assertIn("call", events)

    def test_exceptions_become_a_sentence(self):
        ours = helper()

        class Broken:
            def enable(self):
                raise ValueError("Another profiling tool is already active")

            def disable(self):
                raise RuntimeError("odd")

        ours["_lsprof"] = type("module", (), {"Profiler": Broken})
        self.assertEqual(ours["begin"](), "Python raised ValueError: Another profiling tool is already active")
        ours["_running"] = Broken()
        self.assertEqual(ours["end"](), "Python raised RuntimeError: odd")
        ours["_lsprof"] = None
        self.assertIn("_lsprof", ours["begin"]())

    def test_passes_on_an_interrupt_of_the_program(self):
        ours = helper()

        class Interrupted:
            def enable(self):
                raise KeyboardInterrupt

        ours["_lsprof"] = type("module", (), {"Profiler": Interrupted})
        with self.assertRaises(KeyboardInterrupt):
            ours["begin"]()

    @unittest.skipUnless(hasattr(os, "register_at_fork"), "Python 3.6 has no fork hooks")
    def test_a_child_continues_without_the_profile(self):
        ours = helper()
        ours["begin"]()
        pid = os.fork()
        if pid == 0:
            os._exit(0 if sys.getprofile() is None and isinstance(ours["end"](), str) else 1)
        _, status = os.waitpid(pid, 0)
        self.assertEqual(os.WEXITSTATUS(status), 0)
        self.assertIsInstance(ours["end"](), bytes)

    def test_profiles_repeatedly(self):
        ours = helper()
        for calls in (1, 2, 3):
            self.assertIsNone(ours["begin"]())
            for _ in range(calls):
                leaf(5)
            rows = {key[2]: row for key, row in marshal.loads(ours["end"]()).items()}
            self.assertEqual(rows["leaf"][1], calls)

    def test_runs_no_program_code_and_prints_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("profile.py", "cProfile.py", "pstats.py"):
                (pathlib.Path(folder) / name).write_text("print('imported', __name__)")
            code = (f"with open({str(SOURCE)!r}) as file:\n    source = file.read()\n"
                    "module = {'__builtins__': __builtins__}\nexec(compile(source, '<lockstep>', 'exec'), module)\n"
                    "assert module['begin']() is None\nassert isinstance(module['end'](), bytes)")
            for flags in ([], ["-I"], ["-S"], ["-W", "error"]):
                done = subprocess.run([sys.executable, *flags, "-c", code], cwd=folder,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
                self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""), flags)


if __name__ == "__main__":
    unittest.main()
