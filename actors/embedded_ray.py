"""A Ray that lives as long as the driver that starts it."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from . import embedded_ray_guard

SYSTEM_CONFIG = {
    # By default Ray's workers yield to everything else on the machine, and a barrier waits for them.
    "worker_niceness": 0,
    # Statistics that only Ray's debug files show: a third of the CPU time of an idle process.
    "event_stats": False,
}
"""Settings of Ray for an embedded one, as `ray.init` takes them."""
_VARIABLE = "TIDEGATE_EMBEDDED_RAY"
_mark = ""
"""In the environment of what belongs to the embedded Ray of this process, once there was one."""
_guard: subprocess.Popen[bytes] | None = None


@contextmanager
def guarded() -> Iterator[None]:
    """Start an embedded Ray in here: all its processes are killed as soon as this process has ended.

    Not what this process starts otherwise: the mark is taken out of its environment afterwards. A Ray that
    this process only connects to has no mark, so detached jobs stay.
    """
    global _mark, _guard
    if _guard is None:
        _mark = f"{_VARIABLE}={uuid.uuid4().hex}"
        # In a session of its own and without the mark: no signal of the driver's terminal ends it.
        _guard = subprocess.Popen(
            [sys.executable, "-I", "-S", embedded_ray_guard.__file__, str(os.getpid()), _mark],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={},
        )
    os.environ[_VARIABLE] = _mark.partition("=")[2]
    try:
        yield
    finally:
        del os.environ[_VARIABLE]
