"""Kills the job of examples/kafka at each phase of its sink's protocol, again and again.

    python -m tests.kafka.kills [--times 20] [--points commit_mid@counts:1:kill,...]

Each round starts the job, which dies at the point, goes on with another parallelism, dies again while it
commits what it restores, and goes on. Then the output topic must hold every count once, with no transaction
left open.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from ..forked import Forks
from .broker import Broker
from .log import committed_values, open_transactions
from .test_sink import EXPECTED, WORDS, run_example

POINTS = (
    "process@counts:3:kill",
    "snapshot_sync@counts:2:kill",
    "snapshot_async@counts:2:kill",
    "acknowledge@counts:2:kill",
    "before_manifest:2:kill",
    "after_manifest:2:kill",
    "notify@counts:2:kill",
    "commit_before@counts:1:kill",
    "commit_mid@counts:1:kill",
    "commit_after@counts:1:kill",
)


def kill_at(forks: Forks, broker: Broker, point: str) -> tuple[list[int], bool]:
    """One round: how the processes ended, and whether the topic is right."""
    topics = [broker.topic(2), broker.topic(2)]
    broker.produce(topics[0], WORDS[::2], 0)
    broker.produce(topics[0], WORDS[1::2], 1)
    with tempfile.TemporaryDirectory() as directory:
        ends = [
            run_example(forks, broker, topics, Path(directory), points, parallelism)
            for points, parallelism in ((point, 2), ("commit_mid@counts:1:kill", 1), ("", 2))
        ]
    is_right = sorted(committed_values(broker.servers, topics[1], 2)) == EXPECTED
    return ends, is_right and (ends[0] == 0 or open_transactions(broker.servers, topics[1], 2) == 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--times", type=int, default=20, help="rounds for each point")
    parser.add_argument("--points", default=",".join(POINTS))
    arguments = parser.parse_args()
    # First: what is forked must have no threads.
    forks = Forks("tests.kafka.example_job")
    broker, wrong = Broker(), 0
    try:
        for number in range(arguments.times):
            for point in arguments.points.split(","):
                started_s = time.monotonic()
                ends, is_right = kill_at(forks, broker, point)
                wrong += not is_right
                verdict = "right" if is_right else "WRONG"
                print(
                    f"{number + 1} {point} {ends} {verdict} {time.monotonic() - started_s:.1f} s", flush=True
                )
    finally:
        broker.stop()
        forks.close()
    raise SystemExit(f"{wrong} rounds went wrong" if wrong else 0)


if __name__ == "__main__":
    main()
