"""Explains dumps in the format of PyTorch's Flight Recorder, as Python's pickle writes them. The cases are those
that PyTorch's own analyser (fr_trace) distinguishes; where the verdicts differ, the case says why."""
import json
import pathlib
import pickle
import subprocess
import sys
import tempfile
import unittest

LOCKSTEP = pathlib.Path(sys.argv.pop(1)).resolve() / "lockstep"
NO_HANG, USAGE, HANG = 0, 2, 3
START = 1_700_000_000_000_000_000


def entry(name="all_reduce", sizes=((4, 4),), outputs=None, state="scheduled", sequence=1, dtype="float32", **fields):
    return {"frames": [{"name": "step", "filename": "train.py", "line": 7}], "record_id": sequence, "pg_id": 0, "process_group": ("0", "default_pg"),
            "collective_seq_id": sequence, "p2p_seq_id": 0, "op_id": sequence, "profiling_name": f"nccl:{name}", "time_created_ns": START + sequence,
            "input_sizes": [list(s) for s in sizes], "input_dtypes": [dtype], "output_sizes": [list(s) for s in outputs or sizes],
            "output_dtypes": [dtype], "state": state, "time_discovered_started_ns": None, "time_discovered_completed_ns": None,
            "retired": state == "completed", "timeout_ms": 600000, "is_p2p": name.startswith(("send", "recv")), **fields}


def dump(*entries):
    return {"version": "2.8", "entries": list(entries), "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}}


class HangDumps(unittest.TestCase):
    def run_on(self, files, *args):
        with tempfile.TemporaryDirectory(prefix="lockstep-e2e-") as folder:
            for name, content in files.items():
                (pathlib.Path(folder) / name).write_bytes(content)
            done = subprocess.run([LOCKSTEP, "hang", "--from", folder, *args], text=True, capture_output=True, timeout=60)
        return done.returncode, done.stdout, done.stderr

    def explain(self, *ranks, protocol=2):
        """Returns the exit code, and the cause and late ranks of the only finding."""
        files = {f"nccl_trace_rank_{rank}": pickle.dumps(content, protocol=protocol) for rank, content in enumerate(ranks)}
        code, out, err = self.run_on(files, "--format", "json")
        self.assertIn(code, (NO_HANG, HANG), err)
        job, = json.loads(out)["jobs"]
        self.assertLessEqual(len(job["findings"]), 1, out)
        return code, *((f["cause"], f["late_ranks"]) for f in job["findings"])

    def test_every_protocol_of_pickle(self):
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
            with self.subTest(protocol=protocol):
                ended = entry(state="completed")
                self.assertEqual(self.explain(dump(ended, entry(sequence=2)), dump(ended), protocol=protocol), (HANG, ("never_entered", [1])))

    def test_operations_that_match(self):
        self.assertEqual(self.explain(dump(entry(state="completed")), dump(entry(state="completed"))), (NO_HANG,))
        # fr_trace reports nothing here. The operation has not ended, which is what the job waits for.
        self.assertEqual(self.explain(dump(entry(state="started")), dump(entry(state="started"))), (HANG, ("stuck", [])))

    def test_another_operation(self):
        self.assertEqual(self.explain(dump(entry()), dump(entry("all_gather")))[1][0], "mismatch")

    def test_another_input_size(self):
        self.assertEqual(self.explain(dump(entry()), dump(entry(sizes=[(5, 4)], outputs=[(4, 4)])))[1][0], "mismatch")

    def test_another_type(self):
        self.assertEqual(self.explain(dump(entry()), dump(entry(dtype="float16")))[1][0], "mismatch")

    def test_an_exchange_may_have_any_size(self):
        # fr_trace calls it undecided.
        self.assertEqual(self.explain(dump(entry("all_to_all", state="started")), dump(entry("all_to_all", [(5, 4)], state="started"))),
                         (HANG, ("stuck", [])))

    def test_another_state(self):
        # fr_trace calls it a mismatch of states. One rank's kernel has not started.
        self.assertEqual(self.explain(dump(entry()), dump(entry(state="completed"))), (HANG, ("never_started", [0])))

    def test_differences_in_what_has_ended(self):
        # fr_trace reports the sizes. The job does not wait for these operations.
        self.assertEqual(self.explain(dump(entry(state="completed")), dump(entry(sizes=[(5, 4)], state="completed"))), (NO_HANG,))

    def test_a_message_without_its_peer(self):
        self.assertEqual(self.explain(dump(entry("recv 0<-1", state="started")), dump()), (HANG, ("never_entered", [1])))

    def test_a_rank_without_a_dump(self):
        code, out, _ = self.run_on({"rank_0": pickle.dumps(dump(entry()))})
        self.assertEqual(code, HANG)
        self.assertIn("no daemon or dump reports member 1 of default_pg", out)

    def test_a_pickle_that_runs_code_is_refused(self):
        class Attack:
            def __reduce__(self):
                return print, ("owned",)
        code, out, err = self.run_on({"rank_0": pickle.dumps({"entries": Attack()}, protocol=2)})
        self.assertEqual((code, out), (USAGE, ""))
        self.assertRegex(err, r"rank_0: byte \d+ of the pickle has opcode 0x63, which is not one of plain data")

    def test_a_folder_without_dumps(self):
        code, _, err = self.run_on({"notes.txt": b"none"})
        self.assertEqual(code, USAGE)
        self.assertIn("TORCH_NCCL_DEBUG_INFO_TEMP_FILE", err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
