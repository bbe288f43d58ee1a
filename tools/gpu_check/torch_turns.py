"""Takes turns (turns.py) with PyTorch: three workloads, one of them also with CUDA graphs, and PyTorch's own
profiler."""
import torch

from turns import Client, Worker, answers_path

KINDS = {"cuda": [torch.profiler.ProfilerActivity.CUDA],
         "cpu+cuda": [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]}
PRODUCTS, SIDE = 10, 4096
TINY_KERNELS = 200


class TorchWorker(Worker):
    def __init__(self):
        torch.manual_seed(0)
        torch.zeros(1, device="cuda").add_(1).item()
        self.profiler = None
        super().__init__({"products": self.products, "tiny": self.tiny, "transformer": self.transformer,
                          "transformer_graph": self.transformer_graph})

    def free_bytes(self):
        return torch.cuda.mem_get_info()[0]

    def products(self):
        a = torch.randn(SIDE, SIDE, device="cuda", dtype=torch.bfloat16)
        b = torch.randn(SIDE, SIDE, device="cuda", dtype=torch.bfloat16)
        c = torch.empty_like(a)

        def step():
            for _ in range(PRODUCTS):
                torch.mm(a, b, out=c)
            torch.cuda.synchronize()
        return step, PRODUCTS

    def tiny(self):
        x = torch.zeros(1024, device="cuda")

        def step():
            for _ in range(TINY_KERNELS):
                x.add_(1.0)
            torch.cuda.synchronize()
        return step, TINY_KERNELS

    def train(self):
        layer = torch.nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True)
        model = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
        data = torch.randn(8, 64, 256, device="cuda")

        def step():
            optimizer.zero_grad(set_to_none=True)
            model(data).square().mean().backward()
            optimizer.step()
        return step

    def transformer(self):
        train = self.train()

        def step():
            train()
            torch.cuda.synchronize()
        return step, 0  # 0: the number of launches is unknown

    def transformer_graph(self):
        train, side, graph = self.train(), torch.cuda.Stream(), torch.cuda.CUDAGraph()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                train()
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(graph):
            train()

        def step():
            graph.replay()
            torch.cuda.synchronize()
        return step, 0

    def profile(self, kind):
        if kind:
            self.profiler = torch.profiler.profile(activities=KINDS[kind])
            self.profiler.start()
        else:
            self.profiler.stop()
            self.profiler = None
        return {}

    def ranges(self, count):
        return Client.time(count, lambda: torch.cuda.nvtx.range_push("probe"), torch.cuda.nvtx.range_pop)


if __name__ == "__main__":
    TorchWorker().serve(answers_path(), torch=torch.__version__)
