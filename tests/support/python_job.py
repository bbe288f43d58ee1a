"""A rank in Python over the simulated CUDA runtime. It loads batches in pure Python, works on the device, and
marks its steps.

usage: python_job.py SECONDS [--slow RANK] [--profiled RANK] [--asleep RANK]

The slow rank takes eight times as long to load a batch. The profiled rank runs under cProfile itself. In
the asleep rank, another thread works.
"""
import cProfile
import ctypes
import os
import sys
import threading
import time

RANK = int(os.environ["OMPI_COMM_WORLD_RANK"])


def which(flag):
    return int(sys.argv[sys.argv.index(flag) + 1]) if flag in sys.argv else -1


def load_batch(rows):
    total = 0
    for row in range(rows):
        total += row * row % 7
    return total


def forward(runtime, memory):
    runtime.cudaMemset(memory, 0, 1 << 20)
    runtime.cudaDeviceSynchronize()


def train(seconds):
    runtime = ctypes.CDLL("libcudart.so.13")
    lockstep = ctypes.CDLL(os.environ["NVTX_INJECTION64_PATH"])
    lockstep.lockstep_step_begin.argtypes = [ctypes.c_uint64]
    memory = ctypes.c_void_p()
    assert runtime.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(1 << 20)) == 0
    end = time.monotonic() + seconds
    step = 0
    while time.monotonic() < end:
        lockstep.lockstep_step_begin(step)
        load_batch(80_000 if RANK == which("--slow") else 10_000)
        forward(runtime, memory)
        lockstep.lockstep_step_end()
        time.sleep(0.005)
        step += 1


def main():
    seconds = float(sys.argv[1])
    if RANK == which("--profiled"):
        cProfile.runctx("train(seconds)", globals(), {"seconds": seconds}, os.devnull)
    elif RANK == which("--asleep"):
        worker = threading.Thread(target=train, args=(seconds,))
        worker.start()
        time.sleep(seconds)
        worker.join()
    else:
        train(seconds)
    print("rank", RANK, "ended well, profiler", sys.getprofile(), flush=True)


if __name__ == "__main__":
    main()
