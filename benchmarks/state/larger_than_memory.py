"""Ten million keys with 256 MiB for caches and buffers: memory, and the rate against a million keys."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from tidegate.state.lmdb_backend import LmdbStateBackend

from benchmarks.parts import row
from benchmarks.state.common import (
    Subtask,
    parameters,
    prepare_process,
    random_batches,
    scratch,
    sequential,
)

MIB = 1 << 20


def status(field: str) -> float:
    """MiB of a field of this process's status."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    raise KeyError(field)


class Peak:
    """Highest anonymous memory, sampled on a thread of its own. (Mapped pages of LMDB are not in it.)"""

    def __init__(self) -> None:
        self.anonymous = 0.0
        self._stop = threading.Event()
        threading.Thread(target=self._sample, daemon=True).start()

    def _sample(self) -> None:
        while not self._stop.wait(0.1):
            self.anonymous = max(self.anonymous, status("RssAnon"))

    def stop(self) -> float:
        self._stop.set()
        return self.anonymous


def main() -> None:
    """Fill a million, measure, fill ten, measure."""
    prepare_process()
    is_quick = "--quick" in sys.argv
    stored = "--checkpoints" in sys.argv
    few, many = (100_000, 1_000_000) if is_quick else (1_000_000, 10_000_000)
    seconds = 2.0 if is_quick else 8.0
    interval_s = 1.0 if stored else 0.0
    peak = Peak()
    with scratch() as directory:
        config = LmdbStateBackend(memory_size_bytes=(32 if is_quick else 256) * MIB)
        subtask = Subtask(config.create_keyed_backend(parameters(directory, stored=stored)))
        for batch in sequential(few):
            subtask.process(batch)
        before = subtask.run(random_batches(few), seconds, interval_s)
        for number, batch in enumerate(sequential(many)):
            subtask.process(batch)
            if stored and number % 256 == 255 and not subtask.is_checkpointing:
                subtask.checkpoint()
        after = subtask.run(random_batches(many), seconds, interval_s)
        subtask.close()
    anonymous, high = peak.stop(), status("VmHWM")
    what = "with a checkpoint a second" if stored else "without checkpoints"
    row(
        f"{many:,} keys in {config.memory_size_bytes // MIB} MiB, {what}: peak RSS < 1 GiB",
        f"{high:,.0f} MiB, of it not LMDB's mapped file: {anonymous:,.0f} MiB",
        high < 1024,
    )
    row(
        f"the same: no slowdown beyond 3 x against {few:,} keys",
        f"{before / 1e3:,.0f} k/s, then {after / 1e3:,.0f} k/s: {before / after:.2f} x",
        before <= 3 * after,
    )


if __name__ == "__main__":
    main()
