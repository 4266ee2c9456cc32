"""Waits for what nobody tells a test of: a broker, or the clock."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from .broker import WAIT_S

_ASK_AGAIN_S = 0.01


def wait_until(condition: Callable[[], bool]) -> None:
    """Ask again and again, for at most `WAIT_S`, until the answer is yes."""
    never = threading.Event()
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        never.wait(_ASK_AGAIN_S)
