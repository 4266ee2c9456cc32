"""A million timers of a keyed process function: registered, snapshotted, restored, fired.

One key and one random time each. The figures are of CPU time, so that other work on the machine shows less;
they include the key hash of each record and the call of the user's function.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from tidegate.common import Types
from tidegate.datastream import HashMapStateBackend, KeyedProcessFunction, LmdbStateBackend, StateBackend
from tidegate.testing.harness import HarnessSnapshot
from tidegate.testing.harness_forms import KeyedOneInputHarness

from benchmarks.parts import row
from benchmarks.state.common import BATCH, prepare_process

GOAL_PER_S = 300_000
_PRIME = 1_000_003


class Alarms(KeyedProcessFunction):
    """One timer for each record, and one result for each timer."""

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> None:
        ctx.timer_service().register_event_time_timer(value * 7_919 % _PRIME)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[int]:
        yield ctx.get_current_key()


@contextmanager
def alarms(backend: StateBackend, restored: HarnessSnapshot | None = None) -> Iterator[KeyedOneInputHarness]:
    with KeyedOneInputHarness(
        Alarms(), int, Types.LONG(), state_backend=backend, restored=restored
    ) as harness:
        yield harness


def seconds(work: Callable[[], object]) -> float:
    """CPU time of all threads of this process."""
    start = time.process_time()
    work()
    return time.process_time() - start


def measure(name: str, backend: StateBackend, count: int) -> None:
    """The rows of one backend."""

    def register() -> None:
        for at in range(0, count, BATCH):
            harness.process_elements(range(at, min(at + BATCH, count)))

    def fire() -> None:
        harness.process_watermark(_PRIME)
        while len(harness.output()) < count:
            # The loop stands aside while the snapshot goes into LMDB.
            harness.advance_processing_time(2)

    with alarms(backend) as harness:
        per_s = count / seconds(register)
        row(f"{name}: register {GOAL_PER_S:,}/s", f"{per_s:,.0f}/s", per_s >= GOAL_PER_S)
        start = time.process_time()
        snapshot = harness.snapshot()
        row(f"{name}: snapshot of {count:,} timers", f"{time.process_time() - start:.2f} s", None)
        per_s = count / seconds(fire)
        row(f"{name}: fire {GOAL_PER_S:,}/s", f"{per_s:,.0f}/s", per_s >= GOAL_PER_S)
    start = time.process_time()
    with alarms(backend, snapshot) as harness:
        row(f"{name}: restore", f"{time.process_time() - start:.2f} s", None)


def main() -> None:
    prepare_process()
    count = 100_000 if "--quick" in sys.argv else 1_000_000
    measure("in memory", HashMapStateBackend(), count)
    measure("LMDB", LmdbStateBackend(), count)


if __name__ == "__main__":
    main()
