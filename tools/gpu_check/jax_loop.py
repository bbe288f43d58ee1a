"""Runs a loop of matrix products in JAX. Each step is a JSON line {"event": "step", "step", "start_ns",
"ns"}. SIGTERM ends it."""
import argparse
import json
import os
import signal
import threading
import time

# Kernels in CUDA graphs are the subject of another check.
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_gpu_enable_command_buffer="
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--log", required=True)
    args = parser.parse_args()
    end = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: end.set())
    import jax
    import jax.numpy as jnp
    with open(args.log, "w") as log:
        def report(event, **fields):
            log.write(json.dumps({"event": event, **fields}) + "\n")
            log.flush()

        step = jax.jit(lambda x: jnp.tanh(x @ x) * 0.5)
        x = jnp.ones((1024, 1024))
        x = step(x).block_until_ready()
        report("ready", jax=jax.__version__, device=str(jax.devices()[0]))
        until, number = time.monotonic() + args.seconds, 0
        while time.monotonic() < until and not end.is_set():
            start_ns, began = time.time_ns(), time.perf_counter_ns()
            for _ in range(10):
                x = step(x)
            x.block_until_ready()
            report("step", step=number, start_ns=start_ns, ns=time.perf_counter_ns() - began)
            number += 1


if __name__ == "__main__":
    main()
