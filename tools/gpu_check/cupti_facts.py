"""Prints CUPTI's properties and behaviour in a PyTorch process on this machine as one JSON document. It
leaves no changes: it disables the kinds that it enabled and returns its subscriber. With --without-torch,
it examines the library of --cupti in a plain process."""
import argparse
import ctypes
import json
import re
import time

KINDS = {"kernel": 10, "memcpy": 1, "memcpy_peer": 22, "memset": 2, "api": 5, "sync": 38, "external_correlation": 39,
         "cuda_event": 36, "overhead": 17, "graph_trace": 51, "context": 9, "device": 8, "stream": 37, "memory": 49}
PARSES_ALWAYS = 5


def record_bytes(cupti, kind):
    """Returns a record's size by the library's own parser. The buffer has a record of the kind, then records
    that always parse."""
    buffer = (ctypes.c_uint8 * 2048)()
    for at in range(8, 2048, 8):
        ctypes.c_uint32.from_buffer(buffer, at).value = PARSES_ALWAYS
    ctypes.c_uint32.from_buffer(buffer, 0).value = kind
    record = ctypes.c_void_p()
    for _ in range(2):
        if cupti.cuptiActivityGetNextRecord(buffer, ctypes.c_size_t(2048), ctypes.byref(record)) != 0:
            return 0
    return record.value - ctypes.addressof(buffer)


def clock_bracket(cupti):
    """Returns the difference of cuptiGetTimestamp and CLOCK_REALTIME. Of 1000 tries, the one with the
    shortest interval counts."""
    best, stamp = None, ctypes.c_uint64()
    for _ in range(1000):
        before = time.time_ns()
        code = cupti.cuptiGetTimestamp(ctypes.byref(stamp))
        after = time.time_ns()
        if code != 0:
            return {"error": code}
        if best is None or after - before < best["gap_ns"]:
            best = {"gap_ns": after - before, "offset_ns": stamp.value - (before + after) // 2}
    return best


def timed(function, *args):
    began = time.perf_counter()
    code = function(*args)
    return {"code": code, "ms": round((time.perf_counter() - began) * 1000, 3)}


def loaded(name):
    with open("/proc/self/maps") as maps:
        return sorted({m.group(0) for m in (re.search(r"/\S*" + name + r"\S*", line) for line in maps) if m})


def attributes(cupti):
    found = {}
    for name, number, kind in (("device_buffer_size", 0, ctypes.c_size_t), ("device_buffer_pool_limit", 2, ctypes.c_size_t),
                               ("zeroed_out", 5, ctypes.c_uint8), ("per_thread_buffer", 9, ctypes.c_uint8)):
        value = kind()
        size = ctypes.c_size_t(ctypes.sizeof(value))
        code = cupti.cuptiActivityGetAttribute(ctypes.c_int(number), ctypes.byref(size), ctypes.byref(value))
        found[name] = value.value if code == 0 else f"error {code}"
    return found


def subscriber(cupti):
    handle = ctypes.c_void_p()
    callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p)(lambda *_: None)
    code = cupti.cuptiSubscribe(ctypes.byref(handle), callback, None)
    if code == 0:
        cupti.cuptiUnsubscribe(handle)
    return code


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cupti", help="path of libcupti, where none is loaded")
    parser.add_argument("--without-torch", action="store_true")
    args = parser.parse_args()
    facts = {}

    def fact(name, function):
        try:
            facts[name] = function()
        except Exception as error:
            facts[name] = f"{type(error).__name__}: {error}"

    torch = None
    if not args.without_torch:
        began = time.monotonic()
        import torch
        facts["torch_import_s"] = round(time.monotonic() - began, 2)
        facts["torch"] = [torch.__version__, str(torch.version.cuda)]
        fact("nccl", lambda: ".".join(map(str, torch.cuda.nccl.version())))
    facts["cupti_loaded"] = loaded("libcupti")
    path = (facts["cupti_loaded"] or [args.cupti or "libcupti.so.13"])[0]
    facts["cupti_path"] = path
    cupti = ctypes.CDLL(path)
    version = ctypes.c_uint32()
    fact("cupti_version", lambda: (cupti.cuptiGetVersion(ctypes.byref(version)), version.value)[1])
    fact("clock_before_cuda", lambda: clock_bracket(cupti))
    if torch is not None:
        began = time.monotonic()
        torch.cuda.init()
        torch.zeros(1, device="cuda").add_(1).item()
        facts["cuda_init_s"] = round(time.monotonic() - began, 2)
        fact("device", lambda: [torch.cuda.get_device_name(0), torch.cuda.get_device_capability(0)])
    fact("clock_with_cuda", lambda: clock_bracket(cupti))
    fact("record_bytes", lambda: {name: record_bytes(cupti, kind) for name, kind in KINDS.items()})
    fact("subscribe", lambda: subscriber(cupti))
    fact("attributes", lambda: attributes(cupti))
    fact("first_enable_kernel", lambda: timed(cupti.cuptiActivityEnable, ctypes.c_int(KINDS["kernel"])))
    fact("disable_kernel", lambda: timed(cupti.cuptiActivityDisable, ctypes.c_int(KINDS["kernel"])))
    fact("second_enable_kernel", lambda: timed(cupti.cuptiActivityEnable, ctypes.c_int(KINDS["kernel"])))
    fact("second_disable_kernel", lambda: timed(cupti.cuptiActivityDisable, ctypes.c_int(KINDS["kernel"])))
    # No buffer is registered for the dumped objects here. Only the duration matters.
    for kind in ("device", "context", "stream"):
        fact(f"enable_and_dump_{kind}", lambda: timed(cupti.cuptiActivityEnableAndDump, ctypes.c_int(KINDS[kind])))
        fact(f"disable_{kind}", lambda: timed(cupti.cuptiActivityDisable, ctypes.c_int(KINDS[kind])))
    # Tracing on Blackwell GPUs; other GPUs return an error. It comes last, because it changes later results.
    fact("hardware_trace", lambda: [timed(cupti.cuptiActivityEnableHWTrace, ctypes.c_uint8(on)) for on in (1, 0)])
    fact("libraries", lambda: {name: loaded(name) for name in ("libcuda.so", "libcudart", "libnccl", "libnvToolsExt")})
    print(json.dumps(facts, indent=1))


if __name__ == "__main__":
    main()
