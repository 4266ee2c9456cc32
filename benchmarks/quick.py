"""`make bench-quick`: ours beside bare Python in one session of less than three minutes.

    python -m benchmarks.quick            # exit status 1 if a ratio fell by a third, twice
    python -m benchmarks.quick --record   # on a quiet machine: keep the ratios as the new bounds

What is compared is CPU time for a record, which other work on the machine disturbs less than the clock.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from . import cases, environments
from .guard import Finding, Outcome, judge, ratio_of
from .measurement import Bench
from .plan import Case

BOUNDS = Path(__file__).resolve().parent / "bounds.json"
ROUNDS = 2
# Of the records of the main suite: a run then takes a second or two.
SHARE = 0.12
GUARDED = (
    (cases.LOCAL, "bare loop", cases.STATELESS),
    (cases.LOCAL, "bare loop", cases.KEYED_SMALL),
    (cases.COLUMNS, "bare numpy", cases.KEYED_SMALL),
    (cases.LOCAL, "bare loop", cases.KEYED_LARGE),
    (cases.LOCAL, "bare loop", cases.WINDOWS),
    (cases.COLUMNS, "bare numpy", cases.WINDOWS),
    (cases.LOCAL, "bare loop", cases.JOIN),
)


def pairs() -> dict[str, tuple[Case, Case]]:
    """Ours and the limit, by the name of the bound."""
    found = {}
    for ours, limit, group in GUARDED:
        by_system = {case.system: case for case in group}
        found[f"{group[0].title} {ours}"] = (by_system[ours], by_system[limit])
    # The limit has no checkpoints and no LMDB: this is about what they cost.
    durable = next(case for case in cases.CHECKPOINTS if case.system == cases.LOCAL_LMDB)
    bare = next(case for case in cases.KEYED_LARGE if case.system == "bare loop")
    found[f"W3 {durable.system}"] = (durable, replace(bare, records=durable.records))
    return found


def measure(bench: Bench, names: Sequence[str], rounds: int) -> dict[str, float]:
    """The ratios of some pairs, ours and the limit in turns."""
    chosen = {name: pair for name, pair in pairs().items() if name in names}
    costs: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in chosen}
    for number in range(1, rounds + 1):
        for name, pair in chosen.items():
            for place, case in enumerate(pair):
                costs[name][place].append(bench.measure(case, number).metrics["cpu_s"])
    return {name: ratio_of(ours, limits) for name, (ours, limits) in costs.items()}


def line(finding: Finding) -> str:
    """A finding in words."""
    return (
        f"{finding.name:30s} {finding.ratio:6.2f} of the limit, recorded {finding.bound:.2f}: "
        f"{finding.outcome.value}"
    )


def main(arguments: list[str] | None = None) -> int:
    """Measures and prints; the exit status is 1 if something fell."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quick", description=__doc__)
    parser.add_argument("--record", action="store_true", help="keep what is measured as the new bounds")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"default: {ROUNDS}")
    parser.add_argument("--share", type=float, default=SHARE, help=f"of the records; default: {SHARE}")
    options = parser.parse_args(arguments)
    bench = Bench(environments.cache_dir() / "quick", options.share)
    started = time.monotonic()
    if options.record:
        found = measure(bench, list(pairs()), options.rounds)
        text = json.dumps({name: round(ratio, 3) for name, ratio in found.items()}, indent=4)
        BOUNDS.write_text(text + "\n")
        print(text)
        return 0
    findings = judge(json.loads(BOUNDS.read_text()), lambda names: measure(bench, names, options.rounds))
    for finding in findings:
        print(line(finding))
    print(f"{time.monotonic() - started:.0f} s")
    return int(any(finding.outcome is Outcome.FALLEN for finding in findings))


if __name__ == "__main__":
    sys.exit(main())
