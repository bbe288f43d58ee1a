"""A rank in Python over the simulated CUDA and NCCL, which all-reduces in every step. At a step, one rank does
something else.

usage: hang_job.py ID_FILE RANK STEP KIND

  sleep   it sleeps for ever in its data loader
  save    it writes a checkpoint in many short parts for ever, and uses little processor time
"""
import ctypes
import itertools
import os
import pathlib
import sys
import time

RANK = int(os.environ["OMPI_COMM_WORLD_RANK"])
RANKS = int(os.environ["OMPI_COMM_WORLD_SIZE"])
COUNT = 1 << 10
FLOAT, SUM = 7, 0


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


class Loader:
    def next(self):
        while True:
            time.sleep(1000)


def save_head():
    time.sleep(0.2)
    time.sleep(0.2)


def save_tail():
    time.sleep(0.2)
    time.sleep(0.2)


def save_checkpoint():
    for part in itertools.count():
        (save_head, save_tail)[part % 2]()
        time.sleep(0.13)


class Job:
    def __init__(self, id_file):
        self.runtime = ctypes.CDLL("libcudart.so.13")
        self.nccl = ctypes.CDLL("libnccl.so.2")
        self.check(self.runtime.cudaSetDevice(int(os.environ["OMPI_COMM_WORLD_LOCAL_RANK"])))
        self.data = ctypes.c_void_p()
        self.check(self.runtime.cudaMalloc(ctypes.byref(self.data), ctypes.c_size_t(4 * COUNT)))
        self.communicator = ctypes.c_void_p()
        self.nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, UniqueId, ctypes.c_int]
        self.check(self.nccl.ncclCommInitRank(ctypes.byref(self.communicator), RANKS, self.share_id(id_file), RANK))

    @staticmethod
    def check(error):
        assert error == 0, error

    def share_id(self, id_file):
        unique = UniqueId()
        if RANK == 0:
            self.check(self.nccl.ncclGetUniqueId(ctypes.byref(unique)))
            id_file.with_suffix(".partial").write_bytes(bytes(unique))
            id_file.with_suffix(".partial").rename(id_file)
        while not id_file.exists():
            time.sleep(0.01)
        return UniqueId.from_buffer_copy(id_file.read_bytes())

    def step(self):
        self.check(self.nccl.ncclAllReduce(self.data, self.data, ctypes.c_size_t(COUNT), FLOAT, SUM, self.communicator, None))
        self.check(self.runtime.cudaDeviceSynchronize())


def train(id_file, rank, step, kind):
    job = Job(id_file)
    for number in itertools.count():
        if RANK == rank and number == step:
            {"sleep": Loader().next, "save": save_checkpoint}[kind]()
        job.step()
        time.sleep(0.02)


if __name__ == "__main__":
    train(pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
