"""A small PyTorch training loop. It logs one JSON line per step: {"event": "step", "step", "mode", "start_ns", "ns"}.

It reads commands from stdin, one per line. `eager` runs the usual loop, and `graph` the same in a CUDA graph. `profile N`
runs N steps under torch.profiler, with GPU activities only. `loader N` runs N steps on batches of a DataLoader with two
workers, which are forks. `quit` ends the loop. It answers each command with a line {"event": <command>, …}.
"""
import argparse
import json
import select
import sys
import time

import torch


class Loop:
    def __init__(self, args, log):
        self.log, self.step = log, 0
        torch.manual_seed(0)
        layers = []
        for _ in range(args.layers):
            layers += [torch.nn.Linear(args.width, args.width), torch.nn.GELU()]
        self.model = torch.nn.Sequential(*layers).cuda()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        self.data = torch.randn(args.batch, args.width, device="cuda")
        self.graph, self.mode = None, "eager"

    def report(self, event, **fields):
        self.log.write(json.dumps({"event": event, **fields}) + "\n")
        self.log.flush()

    def train(self):
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.model(self.data).square().mean()
        loss.backward()
        self.optimizer.step()
        return loss

    def one_step(self):
        start_ns = time.time_ns()
        began = time.perf_counter_ns()
        torch.cuda.nvtx.range_push(f"ProfilerStep#{self.step}")
        if self.mode == "graph":
            self.graph.replay()
            torch.cuda.synchronize()
        else:
            self.train().item()
        torch.cuda.nvtx.range_pop()
        self.report("step", step=self.step, mode=self.mode, start_ns=start_ns, ns=time.perf_counter_ns() - began)
        self.step += 1

    def make_graph(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.train()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.train()

    def profile(self, steps):
        began = time.perf_counter()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
            first = self.step
            for _ in range(steps):
                self.one_step()
        kernels = sum(1 for event in profiler.events() if event.device_type == torch.autograd.DeviceType.CUDA)
        self.report("profile", steps=steps, first_step=first, gpu_events=kernels, seconds=round(time.perf_counter() - began, 2))

    def loader(self, batches):
        rows = torch.utils.data.TensorDataset(torch.randn(self.data.shape[0] * batches, self.data.shape[1]))
        own, done = self.data, 0
        for (batch,) in torch.utils.data.DataLoader(rows, batch_size=own.shape[0], num_workers=2):
            self.data = batch.cuda()
            self.one_step()
            done += 1
        self.data = own
        self.report("loader", batches=done)

    def obey(self, line):
        command, *rest = line.split()
        if command == "graph":
            if self.graph is None:
                self.make_graph()
            self.mode = "graph"
            self.report("graph")
        elif command == "eager":
            self.mode = "eager"
            self.report("eager")
        elif command == "profile":
            self.profile(int(rest[0]))
        elif command == "loader":
            self.loader(int(rest[0]))
        return command != "quit"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--log", required=True)
    args = parser.parse_args()

    with open(args.log, "w") as log:
        loop = Loop(args, log)
        loop.report("ready", at_ns=time.time_ns(), torch=torch.__version__)
        end = time.monotonic() + args.seconds
        listening = True
        while time.monotonic() < end:
            if listening and select.select([sys.stdin], [], [], 0)[0]:
                line = sys.stdin.readline()
                listening = line != ""
                try:
                    if line.strip() and not loop.obey(line):
                        break
                except Exception as error:  # a part that this PyTorch lacks must not end the other parts
                    loop.mode = "eager"
                    loop.report("failed", command=line.strip(), why=f"{type(error).__name__}: {error}"[:500])
            loop.one_step()
        loop.report("end", at_ns=time.time_ns())


if __name__ == "__main__":
    main()
