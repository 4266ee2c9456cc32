"""Chaos on a real Ray of its own: `python -m tests.chaos.run --seed 1 --minutes 5` (`make chaos`).

Rounds follow one another until the time is over. Each starts a job, does to it what the seed says, and
compares its output with the expected one, record for record. The same seed gives the same faults in the
same order; when exactly they hit is up to the machine. Processes are killed by their ids only.

The clock does not jump here: that of the machine would jump for everybody on it. The shells read a clock that
cannot jump, see `tests/common/test_clock.py`.
"""

from __future__ import annotations

import argparse
import logging
import random
import secrets
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import cloudpickle
import ray
from tidegate.spark_bridge.java import require_java

from . import connections, faults, job, rounds, stage_job, stage_kills

RAY_CPUS = 6
SPARK_EVERY = 4
"""A round with Spark takes longer: its session has to start."""
DAMAGE_EVERY = 3


def main() -> int:
    arguments = _arguments()
    for module in (job, connections, faults, rounds, stage_job):
        cloudpickle.register_pickle_by_value(module)
    root = Path(tempfile.mkdtemp(prefix="tgc", dir="/tmp"))
    print(f"seed {arguments.seed}, {arguments.minutes:g} minutes, below {root}", flush=True)
    can_fill_disk = _can_mount(root / "probe")
    if not can_fill_disk:
        print("no tmpfs can be mounted here: the fail point `enospc` stands in for a full disk")
    if not connections.can_cut():
        print("no connections are cut: only root may take the sockets of other processes here")
    require_java().use()
    ray.init(
        address="local",
        num_cpus=RAY_CPUS,
        object_store_memory=256 << 20,
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
        _temp_dir=str(root / "ray"),
        _system_config={"worker_niceness": 0},
    )
    try:
        if arguments.stage_kills:
            chance = random.Random(arguments.seed)
            done = stage_kills.sweeps(root, arguments.stage_kills, chance)
            wrong = sum(kill.outcome != stage_kills.EXACT for kill in done)
        else:
            wrong = _rounds(arguments, root, can_fill_disk)
    finally:
        ray.shutdown()
    if wrong:
        print(f"{wrong} rounds went wrong; their files are below {root}")
        return 1
    shutil.rmtree(root, ignore_errors=True)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000))
    parser.add_argument("--minutes", type=float, default=5.0, help="when no more rounds are started")
    parser.add_argument("--no-spark", action="store_true", help="no rounds with a Spark stage")
    parser.add_argument(
        "--stage-kills",
        type=int,
        default=0,
        metavar="TIMES",
        help="instead of rounds: kill each process of a job with a Spark stage in each phase of an epoch",
    )
    return parser.parse_args()


def _can_mount(path: Path) -> bool:
    try:
        faults.SmallDisk(path).unmount()
    except (PermissionError, FileNotFoundError):
        return False
    return True


def _rounds(arguments: argparse.Namespace, root: Path, can_fill_disk: bool) -> int:
    end_s = time.monotonic() + arguments.minutes * 60
    chance = random.Random(arguments.seed)
    number = wrong = 0
    done: Counter[str] = Counter()
    lines = [f"{'round':>5}  {'recovered':>9}  what was done, and the result"]
    while time.monotonic() < end_s:
        number += 1
        directory = root / str(number)
        directory.mkdir()
        outcome = _one_round(number, directory, chance, arguments.no_spark, can_fill_disk)
        wrong += not outcome.is_right
        done += outcome.done
        told = _told(number, outcome)
        print("\n".join(told), flush=True)
        lines += told
        if outcome.is_right:
            shutil.rmtree(directory, ignore_errors=True)
    # All lines again in one piece: Ray reports every process that died in between.
    counts = ", ".join(f"{count} {name}" for name, count in sorted(done.items()))
    print(
        "\n".join(["", *lines, f"done: {counts}", f"{number} rounds, {wrong} wrong, seed {arguments.seed}"]),
        flush=True,
    )
    return wrong


def _one_round(
    number: int, directory: Path, chance: random.Random, no_spark: bool, can_fill_disk: bool
) -> rounds.Round:
    if number % DAMAGE_EVERY == 0:
        return rounds.damage_round(directory, chance, chance.choice(faults.DAMAGES))
    names = ["kill-task", "kill-coordinator", "stop-task", "kill-task"]
    if can_fill_disk:
        names.append("full-disk")
    if connections.can_cut():
        names += ["cut-connections", "cut-connections"]
    chance.shuffle(names)
    with_spark = not no_spark and number % SPARK_EVERY == 0
    if with_spark:
        names = ["kill-executor", *names[:2]]
    return rounds.faults_round(
        directory, chance, names, rounds.random_points(chance, 2, can_fill_disk), with_spark
    )


def _told(number: int, outcome: rounds.Round) -> list[str]:
    lines = []
    for event in outcome.events:
        took = "" if event.recovered_s is None else f"{event.recovered_s:.1f} s"
        lines.append(f"{number:>5}  {took:>9}  {event.what}")
    verdict = "ok" if outcome.is_right else "WRONG"
    seen = f"; {len(outcome.attempts)} recoveries seen" if outcome.attempts else ""
    return [*lines, f"{number:>5}  {verdict:>9}  {outcome.result}{seen}"]


if __name__ == "__main__":
    sys.exit(main())
