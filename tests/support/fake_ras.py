"""A fake of NCCL's RAS (docs/formats/ras.md): it listens on a port of localhost and answers as the named version
does, or misbehaves."""
import contextlib
import json
import socket
import threading


class FakeRas:
    """`members` is a list of one communicator's members: dictionaries with pid, host and calls (the number of
    all-reduces; None: the process does not answer). Attributes can be changed between two questions."""

    def __init__(self, version="2.28.9"):
        self.version = version
        self.members = []
        # How many more calls each member has at each question.
        self.step = 0
        # None, or: silent (never answers), endless (a line without end), wrong (another protocol), damaged (invalid JSON),
        # flood (an answer without end), cut (the answer ends early).
        self.hostile = None
        self.questions = 0
        self.hash = 0xAB
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self.listener.close()

    def has_json(self):
        return tuple(map(int, self.version.split("."))) >= (2, 28, 7)

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._talk, args=(client,), daemon=True).start()

    def _talk(self, client):
        # The daemon may end the connection at any time, also while the stream closes.
        with contextlib.suppress(OSError), client, client.makefile("rw", newline="\n") as stream:
            as_json = False
            for line in stream:
                answer, as_json, ends = self._answer(line.strip().lower(), as_json)
                while answer is not None:
                    stream.write(answer)
                    stream.flush()
                    if self.hostile != "flood" or not ends:
                        break
                if ends:
                    return

    def _answer(self, command, as_json):
        """Returns the answer, whether JSON was chosen, and whether the connection ends."""
        if self.hostile == "silent":
            return None, as_json, False
        if self.hostile == "endless":
            return "x" * 100_000, as_json, False
        if command.startswith("client protocol "):
            return "HTTP/1.1 400 Bad Request\n" if self.hostile == "wrong" else "SERVER PROTOCOL 2\n", as_json, False
        if command.startswith("timeout "):
            return "OK\n", as_json, False
        if command == "set format json" and self.has_json():
            return "OK\n", True, False
        if command == "verbose status":
            answer = self.json() if as_json else self.text()
            self.questions += 1
            for member in self.members:
                if member["calls"] is not None:
                    member["calls"] += self.step
            if self.hostile == "damaged":
                answer = answer.replace("{", "{{")
            if self.hostile == "cut":
                answer = answer[:len(answer) // 2]
            return answer, as_json, True
        return f"ERROR: Unknown command {command}\n", as_json, False

    def json(self):
        def common(number, member):
            return {"rank": number, "host": member["host"], "pid": member["pid"], "cuda_dev": number, "nvml_dev": number}
        present, missing = [], []
        for number, member in enumerate(self.members):
            if member["calls"] is None:
                missing.append({**common(number, member), "status": {"unresponsive": True, "considered_dead": False}})
                continue
            status = {"init_state": 0, "async_error": 0, "finalize_called": False, "destroy_flag": False, "abort_flag": False}
            counts = {"Broadcast": 1, "Reduce": 0, "AllGather": 0, "ReduceScatter": 0, "AllReduce": member["calls"]}
            present.append({**common(number, member), "status": status, "collective_counts": counts})
        communicator = {"hash": hex(self.hash), "secondary_hash": "0x1:0x2", "size": len(self.members), "ranks_count": len(present),
                        "missing_ranks_count": len(missing), "ranks": present, "missing_ranks": missing}
        return json.dumps({"nccl_version": self.version, "cuda_runtime_version": 13000, "cuda_driver_version": 13000,
                           "timestamp": "2026-01-01 00:00:00", "communicators_count": 1, "communicators": [communicator],
                           "ras": {"collection_time_sec": 0.0, "timeouts_count": 0}}, indent=2)

    def text(self):
        """Each count that differs from the most frequent one has its members, as with verbose output."""
        old = self.version.startswith(("2.24.", "2.25."))
        by_count = {}
        for number, member in enumerate(self.members):
            by_count.setdefault(member["calls"], []).append(number)
        missing = by_count.pop(None, [])
        groups = sorted(by_count.items(), key=lambda group: -len(group[1]))
        problems = ["INCOMPLETE"] * bool(missing) + ["MISMATCH"] * (len(groups) > 1)
        lines = [f"NCCL version {self.version} compiled with CUDA 12.9", "CUDA runtime version 12090, driver version 12090", "", "Job summary",
                 "===========", "", "Communicators... (0.00s)", "=============", "",
                 "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors",
                 "    #  in group  per comm  per node  per comm  in group",
                 f"    0         1         1  {len(self.members):8}  {len(self.members):8}  {len(self.members):8}   RUNNING  "
                 f"{','.join(problems) or 'OK':>6}", "", "Errors", "======", ""]
        if missing:
            lines += [f"#0-0 ({self.hash:016x}) INCOMPLETE", f"  Missing communicator data from {len(missing)} ranks"]
            lines += ([f"  The missing ranks: {','.join(map(str, missing))}"] if old else [self._rank(number, "") for number in missing])
        lines += ["", "Warnings", "========", ""]
        if len(groups) > 1:
            operation = "collective" if old else "AllReduce"
            lines += [f"#0-0 ({self.hash:016x}) MISMATCH", f"  Communicator ranks have different {operation} operation counts"]
            for place, (count, numbers) in enumerate(groups):
                done = f"launched up to operation {count}"
                if len(numbers) > 1:
                    lines.append(f"  {len(numbers)} ranks have {done}")
                if place > 0:
                    lines += [self._rank(number, "" if len(numbers) > 1 else f" has {done}") for number in numbers]
            lines.append("")
        return "\n".join(lines) + "\n"

    def _rank(self, number, state):
        member = self.members[number]
        return f"  Rank {number}{state} -- GPU {number} managed by process {member['pid']} on node {member['host']}"
