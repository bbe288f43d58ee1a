"""Writes one rank's Kineto trace of any size. It has few device rows, and host rows up to the requested size.

  big_trace.py FILE --rank N --bytes N [--steps N] [--kernels N]

The device rows, calls and steps, and the union of the CPU operators, do not depend on the size. The other
rows are host rows as PyTorch writes them with shapes, stacks and flows: nested operators, Python frames,
and names that never repeat.

The output is deterministic and is written as a stream. A FILE that ends in .gz is compressed, with one
gzip member for each piece. --bytes is the size of the uncompressed text.
"""
import argparse
import json
import re
import zlib

STEPS = 12
KERNELS = 100  # per step; together they take 50 ms on rank 0
STEP_MS = 100
FIRST_MS = 1_700_000_000  # ten digits, as in every stamp
ROWS_IN_FILL = 9_000
MS_MARK, NUMBER_MARK = b"@@@@@@@@@@", b"########"


def row(category, name, pid, tid, start_us, duration_us, **args):
    return json.dumps({"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": start_us, "dur": duration_us, "args": args})


def head(rank):
    return (f'{{"schemaVersion": 1, "distributedInfo": {{"backend": "nccl", "rank": {rank}, "world_size": 2}}, "host_name": "big", '
            f'"traceName": "rank{rank}", "traceEvents": [\n').encode()


def kernel_us(rank, kernels):
    """Returns a kernel's duration. All kernels of a step take half of it, and a tenth more on rank 1."""
    return (50 + 5 * rank) * 1000 // kernels


def step_rows(rank, step, kernels):
    """Returns the rows of a step of 100 ms. Its kernels take longer on rank 1, and rank 0 waits for rank 1 in
    the all-reduce."""
    begin = 1000 * (FIRST_MS + STEP_MS * step)
    rows = [row("user_annotation", f"ProfilerStep#{step}", 4000 + rank, 1, begin, 1000 * STEP_MS - 1),
            row("cpu_op", "aten::step", 4000 + rank, 1, begin + 1000, 1000 * (STEP_MS - 2), **{"External id": step})]
    gpu = begin + 2000
    for k in range(kernels):
        correlation = 1 + step * (kernels + 1) + k
        rows.append(row("cuda_runtime", "cudaLaunchKernel", 4000 + rank, 1, begin + 1500 + 3 * k, 2, cbid=211, correlation=correlation))
        duration = kernel_us(rank, kernels)
        rows.append(row("kernel", f"gemm_{k % 10}", rank, 7, gpu, duration, device=rank, stream=7, correlation=correlation, grid=[128, 1, 1], block=[256, 1, 1]))
        gpu += duration + 1
    correlation = (step + 1) * (kernels + 1)
    end = begin + 2000 + kernels * (kernel_us(1, kernels) + 1) + 1000
    rows.append(row("cuda_runtime", "cudaLaunchKernel", 4000 + rank, 1, begin + 1500 + 3 * kernels, 2, cbid=211, correlation=correlation))
    rows.append(row("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", rank, 20, gpu, end - gpu, device=rank, stream=20,
                    correlation=correlation, **{"Collective name": "allreduce", "In msg nelems": 1 << 20, "Out msg nelems": 1 << 20, "Group size": 2,
                                                "dtype": "Float", "Process Group Name": "0", "Process Group Description": "default_pg",
                                                "Process Group Ranks": "[0, 1]", "Seq": step}))
    return (",\n".join(rows) + ",\n").encode()


def fill_template(rank):
    """Returns the rows of one millisecond, with marks in place of the millisecond and a number."""
    ms, number = MS_MARK.decode(), NUMBER_MARK.decode()
    host = f'"pid": {4000 + rank}, "tid": 1'
    shapes = json.dumps([[64, 256, 56, 56], [256, 64, 1, 1], [], [256], [], [], [64, 128, 28, 28], []])
    types = json.dumps(["c10::BFloat16", "c10::BFloat16", "", "float", "Scalar", "", "c10::BFloat16", "ScalarList"])
    rows = []
    for i in range(ROWS_IN_FILL):
        at = f'{ms}{i // 10:03d}.{i % 10}00'
        mine = f"1{number}{i:04d}"
        kind = i % 6
        if kind == 0:
            rows.append(f'{{"ph": "X", "cat": "python_function", "name": "/site-packages/torch/nn/modules/module.py(1553): forward_{mine}", {host}, '
                        f'"ts": {at}, "dur": 0.09, "args": {{"Python parent id": {i}, "Python id": {mine}, "Ev Idx": {i}, "Python module id": {i % 97}}}}}')
        elif kind == 1:
            rows.append(f'{{"ph": "f", "id": {mine}, "pid": {rank}, "tid": 7, "ts": {at}, "cat": "ac2g", "name": "ac2g", "bp": "e"}}')
        else:
            # The reader must examine names that begin with `n` or `_`. Here they never repeat.
            name = ("aten::convolution_backward", f"_compiled_region_{mine}", "aten::_convolution", f"node_{mine}: }} ] \\\" {{[")[kind - 2]
            rows.append(f'{{"ph": "X", "cat": "cpu_op", "name": "{name}", {host}, "ts": {at}, "dur": 0.08, "args": {{"External id": {mine}, '
                        f'"Sequence number": {mine}, "Fwd thread id": 0, "Record function id": {mine}, "Concrete Inputs": ["", "", "[1, 1]", "", "False", "1"], '
                        f'"Input Dims": {shapes}, "Input type": {types}, "Call stack": "train.py(118): train; model.py(77): forward; '
                        f'torch/nn/modules/conv.py(456): _conv_forward; torch/autograd/function.py(539): apply"}}}}')
    return (",\n".join(rows) + ",\n").encode()


def write(path, rank, wanted_bytes, steps=STEPS, kernels=KERNELS):
    gz = path.endswith(".gz")
    template = fill_template(rank)
    fills = wanted_bytes // len(template)
    pieces = re.split(b"(@+|#+)", template)
    marks = pieces[1::2]
    with open(path, "wb") as out:
        def put(text):
            if gz:
                pack = zlib.compressobj(1, zlib.DEFLATED, 31)
                text = pack.compress(text) + pack.flush()
            out.write(text)

        put(head(rank))
        done = 0
        for step in range(steps):
            put(step_rows(rank, step, kernels))
            until = fills * (step + 1) // steps
            for number in range(done, until):
                # The rows are inside the step's operator, which begins 1 ms after the step and ends 1 ms
                # before its end.
                ms = FIRST_MS + STEP_MS * step + 2 + (number - done) % (STEP_MS - 4)
                values = {MS_MARK: b"%010d" % ms, NUMBER_MARK: b"%08d" % number}
                pieces[1::2] = [values[mark] for mark in marks]
                put(b"".join(pieces))
            done = until
        put(b'{"ph": "M", "name": "process_name", "pid": %d, "args": {"name": "python"}}\n]}\n' % (4000 + rank))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--bytes", type=int, default=0)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--kernels", type=int, default=KERNELS, help="in a step, at most 1000")
    args = parser.parse_args()
    write(args.file, args.rank, args.bytes, args.steps, args.kernels)


if __name__ == "__main__":
    main()
