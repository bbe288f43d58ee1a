"""A small PyTorch training loop; writes every step's wall time, one JSON line {"step", "start_ns", "ns"} each."""
import argparse
import json
import time

import torch


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--steps", type=int, default=0, help="stop after this many steps instead")
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--log", required=True)
    args = parser.parse_args()

    torch.manual_seed(0)
    layers = []
    for _ in range(args.layers):
        layers += [torch.nn.Linear(args.width, args.width), torch.nn.GELU()]
    model = torch.nn.Sequential(*layers).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    data = torch.randn(256, args.width, device="cuda")

    end = time.monotonic() + args.seconds
    step = 0
    with open(args.log, "w") as log:
        while (step < args.steps) if args.steps else (time.monotonic() < end):
            start_ns = time.time_ns()
            began = time.perf_counter_ns()
            torch.cuda.nvtx.range_push(f"ProfilerStep#{step}")
            optimizer.zero_grad(set_to_none=True)
            loss = model(data).square().mean()
            loss.backward()
            optimizer.step()
            loss.item()
            torch.cuda.nvtx.range_pop()
            log.write(json.dumps({"step": step, "start_ns": start_ns, "ns": time.perf_counter_ns() - began}) + "\n")
            log.flush()
            step += 1


if __name__ == "__main__":
    main()
