"""Barriers behind a sink slowed a hundred times: how long aligned and unaligned checkpoints take then."""

from __future__ import annotations

import argparse
import time

from tidegate.coordinator.monitoring.statistics import CheckpointOutcome, CheckpointStatistics

from ..jobs.parts import CountSum
from ..jobs.probes import SlowSink, mark, orders_for, wait_for
from ..jobs.workloads import keyed
from ..parts import row
from ..plan import CHECKPOINT_INTERVAL_MS, K_SMALL

# An unhindered sink with its channel takes about 1.5 µs a record.
SLOW_RECORD_US = 150.0
SETTLE_S = 15.0
TIMEOUT_S = 5
CHECKPOINTS = 5


def ended(is_unaligned: bool, wanted: int) -> list[CheckpointStatistics]:
    """Checkpoints that were triggered once all channels were full, in the order of their end."""
    orders = orders_for(
        "alignment",
        "ray",
        K_SMALL,
        "hashmap",
        interval_ms=CHECKPOINT_INTERVAL_MS,
        options={
            "execution.checkpointing.unaligned.enabled": str(is_unaligned).lower(),
            "execution.checkpointing.timeout": f"{TIMEOUT_S} s",
            "execution.checkpointing.tolerable-failed-checkpoints": "1000",
        },
    )
    job = keyed(orders, CountSum(), SlowSink(SLOW_RECORD_US), chain_sink=False)
    client = job.execute_async("alignment")
    try:
        wait_for("a source that reads", lambda: mark(orders, "start-numbers-0"))
        time.sleep(SETTLE_S)
        full_ms = time.time() * 1000

        def since_full() -> list[CheckpointStatistics]:
            return [one for one in client.report().statistics.checkpoints if one.triggered_ms >= full_ms]

        wait_for("checkpoints", lambda: len(since_full()) >= wanted, 1.0)
        return since_full()
    finally:
        client.close()


def main() -> None:
    """Take both kinds of checkpoints and compare them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    wanted = 2 if parser.parse_args().quick else CHECKPOINTS
    aligned, unaligned = (ended(is_unaligned, wanted) for is_unaligned in (False, True))
    late = sum(one.outcome is CheckpointOutcome.ABORTED for one in aligned)
    longest_s = max(one.duration_ms for one in unaligned) / 1000
    complete = sum(one.outcome is CheckpointOutcome.COMPLETED for one in unaligned)
    row(
        "alignment behind a sink slowed 100 times: unaligned <= 2 s where aligned exceeds its timeout",
        f"aligned: {late} of {len(aligned)} exceed {TIMEOUT_S} s; unaligned: {complete} of {len(unaligned)} "
        f"complete, longest {longest_s:.2f} s",
        complete == len(unaligned) and longest_s <= 2 and late == len(aligned),
    )


if __name__ == "__main__":
    main()
