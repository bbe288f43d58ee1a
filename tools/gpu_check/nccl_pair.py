"""One of two ranks that share one GPU: a loop of all-reduces, one rank late by --late-ms before each.

NCCL takes two ranks on one device only when each believes to be on a node of its own (NCCL_HOSTID), and then goes over
sockets. Nobody promises that it works; whoever starts this gives it little time.
"""
import argparse
import datetime
import json
import os
import time

RECIPE = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_NET": "Socket", "NCCL_IB_DISABLE": "1", "NCCL_MNNVL_ENABLE": "0", "NCCL_NVLS_ENABLE": "0",
          "NCCL_MAX_CTAS": "2", "NCCL_NET_GDR_LEVEL": "LOC", "NCCL_RAS_ENABLE": "0", "NCCL_DEBUG": "INFO"}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30)
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

        began = time.monotonic()
        dist.init_process_group("nccl", timeout=datetime.timedelta(seconds=30))
        data = torch.ones(1 << 18, device="cuda")
        dist.all_reduce(data)
        torch.cuda.synchronize()
        report("ready", init_s=round(time.monotonic() - began, 2), nccl=".".join(map(str, torch.cuda.nccl.version())))
        end, step, go = time.monotonic() + args.seconds, 0, torch.ones(1, device="cuda")
        while True:
            start_ns, began = time.time_ns(), time.perf_counter_ns()
            torch.cuda.nvtx.range_push(f"ProfilerStep#{step}")
            data.mul_(0.5)
            if rank == args.late_rank:
                time.sleep(args.late_ms / 1000)
            dist.all_reduce(data)
            # Both end after the same step, or one would wait for ever.
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
