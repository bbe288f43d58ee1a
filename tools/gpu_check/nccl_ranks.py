"""One of several ranks that share one GPU. It runs a loop of all-reduces, or a model under PyTorch's
DistributedDataParallel. One rank is late by --late-ms in each step.

NCCL accepts several ranks on one device only if each has its own node name (NCCL_HOSTID). It then uses
sockets. This is not supported officially, so that the caller should set a short time limit.

It logs the JSON lines `ready`, `latency`, `step` and `end`. `latency` is the median time of an all-reduce
per size in bytes, with no late rank.
"""
import argparse
import datetime
import json
import os
import statistics
import time

RECIPE = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_NET": "Socket", "NCCL_IB_DISABLE": "1", "NCCL_MNNVL_ENABLE": "0", "NCCL_NVLS_ENABLE": "0",
          "NCCL_MAX_CTAS": "2", "NCCL_NET_GDR_LEVEL": "LOC", "NCCL_RAS_ENABLE": "0", "NCCL_DEBUG": "INFO"}
SIZES = [1 << 10, 1 << 15, 1 << 20]


def all_reduces(torch, dist):
    data = torch.ones(1 << 18, device="cuda")

    def step(be_late):
        data.mul_(0.5)
        be_late()
        dist.all_reduce(data)
    return step


def ddp(torch, dist):
    torch.manual_seed(0)
    layers = [layer for _ in range(4) for layer in (torch.nn.Linear(512, 512), torch.nn.GELU())]
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers).cuda(), device_ids=[0])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    data = torch.randn(128, 512, device="cuda")

    def step(be_late):
        optimizer.zero_grad(set_to_none=True)
        loss = model(data).square().mean()
        be_late()
        loss.backward()
        optimizer.step()
    return step


def latency(torch, dist, size):
    data, taken = torch.ones(size // 4, device="cuda"), []
    for _ in range(12):
        torch.cuda.synchronize()
        began = time.perf_counter_ns()
        dist.all_reduce(data)
        torch.cuda.synchronize()
        taken.append(time.perf_counter_ns() - began)
    return statistics.median(taken[2:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--work", choices=["all-reduce", "ddp"], default="all-reduce")
    parser.add_argument("--late-ms", type=float, default=20)
    parser.add_argument("--late-rank", type=int, default=1)
    parser.add_argument("--log", required=True)
    args = parser.parse_args()
    rank = int(os.environ["RANK"])
    os.environ.update(RECIPE, NCCL_HOSTID=f"rank{rank}")

    import torch
    import torch.distributed as dist
    torch.cuda.set_device(0)
    with open(args.log, "w") as log:
        def report(event, **fields):
            log.write(json.dumps({"event": event, **fields}) + "\n")
            log.flush()

        def be_late():
            if rank == args.late_rank:
                time.sleep(args.late_ms / 1000)

        began = time.monotonic()
        dist.init_process_group("nccl", timeout=datetime.timedelta(seconds=30))
        one_step = {"all-reduce": all_reduces, "ddp": ddp}[args.work](torch, dist)
        one_step(lambda: None)
        torch.cuda.synchronize()
        report("ready", init_s=round(time.monotonic() - began, 2), nccl=".".join(map(str, torch.cuda.nccl.version())))
        report("latency", ns={size: latency(torch, dist, size) for size in SIZES})
        end, step, go = time.monotonic() + args.seconds, 0, torch.ones(1, device="cuda")
        while True:
            start_ns, began = time.time_ns(), time.perf_counter_ns()
            torch.cuda.nvtx.range_push(f"ProfilerStep#{step}")
            one_step(be_late)
            # All ranks must end after the same step. Otherwise one would wait forever.
            go.fill_(0.0 if time.monotonic() > end else 1.0)
            dist.all_reduce(go, op=dist.ReduceOp.MIN)
            torch.cuda.synchronize()
            torch.cuda.nvtx.range_pop()
            report("step", step=step, start_ns=start_ns, ns=time.perf_counter_ns() - began)
            step += 1
            if go.item() == 0.0:
                break
        report("end", at_ns=time.time_ns())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
