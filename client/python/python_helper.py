"""The client's part in the process's own interpreter: begin() and end() of a profile, in the main thread.

It is part of the client library as text (client/python/python_calls.cc), and works from Python 3.6 on. It imports only C modules, because
a program may have its own profile.py, which an import of cProfile would run.
"""
import marshal
import os
import sys

try:
    import _lsprof
except ImportError:
    _lsprof = None

_OURS = sys._getframe().f_code.co_filename  # the client compiles it under the name "<lockstep>"
_DISABLE = "<method 'disable' of '_lsprof.Profiler' objects>"
_running = None
_watches_forks = False


def begin():
    """Profiles this thread from now on. Returns None, or a sentence with the reason for no profile."""
    global _running
    try:
        if _lsprof is None:
            return "this Python lacks the module _lsprof"
        other = _other()
        if other is not None:
            return "another profiler is active: " + other
        profiler = _lsprof.Profiler()
        _watch_forks()
        profiler.enable()
        _running = profiler
        return None
    except Exception as error:
        return _error_text(error)


def end():
    """Returns the profile in cProfile's format, or a sentence with the reason for no profile."""
    global _running
    profiler, _running = _running, None
    if profiler is None:
        return "the profile was no longer running"
    try:
        profiler.disable()
        return marshal.dumps(_stats(profiler.getstats()))
    except Exception as error:
        return _error_text(error)


def _other():
    """Returns the name of an active profiler, or None. Before 3.12, ours would silently replace it."""
    if sys.getprofile() is not None:
        return type(sys.getprofile()).__name__
    monitoring = getattr(sys, "monitoring", None)
    return None if monitoring is None else monitoring.get_tool(monitoring.PROFILER_ID)


def _error_text(error):
    return "Python raised " + type(error).__name__ + ": " + str(error)


def _watch_forks():
    """Makes a child of this process continue without the profile."""
    global _watches_forks
    if not _watches_forks and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_forget)
        _watches_forks = True


def _forget():
    global _running
    profiler, _running = _running, None
    if profiler is not None:
        profiler.disable()


def _label(code):
    return ("~", 0, code) if isinstance(code, str) else (code.co_filename, code.co_firstlineno, code.co_name)


def _stats(entries):
    """Converts to pstats' format: function -> (primitive calls, calls, self, total, {caller: (calls, primitive calls, self, total)})."""
    seen = {}
    callers = {}
    for entry in entries:
        function = _label(entry.code)
        if function[0] == _OURS:
            continue
        for callee in entry.calls or ():
            _add(callers.setdefault(_label(callee.code), {}), function, _row(callee))
        if function[2] != _DISABLE:
            _add(seen, function, _row(entry))
    return {function: (row[1], row[0], row[2], row[3], callers.get(function, {})) for function, row in seen.items()}


def _row(entry):
    return entry.callcount, entry.callcount - entry.reccallcount, entry.inlinetime, entry.totaltime


def _add(table, key, row):
    # Two functions may have the same line and name. Their rows are added up.
    before = table.get(key)
    table[key] = row if before is None else tuple(a + b for a, b in zip(before, row))
