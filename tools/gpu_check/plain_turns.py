"""Takes turns (turns.py) with plain CUDA, for machines without PyTorch and for the simulated driver."""
from cuda_driver import Device, Stream
from turns import Worker, answers_path

LONG_KERNELS, TINY_KERNELS = 10, 200
LONG_CYCLES = 200_000  # about 100 us


class PlainWorker(Worker):
    def __init__(self):
        self.device = Device()
        super().__init__({"long_kernels": self.long_kernels, "tiny_kernels": self.tiny_kernels, "tiny_graph": self.in_a_graph})

    def free_bytes(self):
        return self.device.free_bytes()

    def launched(self, cycles, count):
        stream = Stream(self.device, cycles)

        def step():
            stream.launch(count)
            stream.synchronize()
        return step, count

    def long_kernels(self):
        return self.launched(LONG_CYCLES, LONG_KERNELS)

    def tiny_kernels(self):
        return self.launched(0, TINY_KERNELS)

    def in_a_graph(self):
        stream = Stream(self.device, 0)
        graph = stream.graph(TINY_KERNELS)

        def step():
            stream.replay(graph)
            stream.synchronize()
        return step, TINY_KERNELS


if __name__ == "__main__":
    PlainWorker().serve(answers_path())
