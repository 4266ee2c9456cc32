"""One measured run: orders out, marks in, result checked, figures worked out."""

from __future__ import annotations

import contextlib
import os
import shutil
import statistics
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import expected, launch, plan, systems
from .nexmark import cases as nexmark
from .peers.latency import percentile_ms
from .peers.measure import Orders
from .processes import cpu_between
from .running_ray import RunningRay, running_ray

RUN_LIMIT_S = 300.0
# A run with many records gets as much longer as they need at this rate.
SLOWEST_PER_S = 30_000
FILL_LIMIT_S = 300.0
RESTART_LIMIT_S = 60.0
# After the state is full, one more checkpoint must be complete before the kill.
SETTLE_S = 6.0
MIB = 2**20


@dataclass(frozen=True)
class Figure:
    """What one run gave.

    Attributes:
        metrics: by their names in `metrics.UNITS`.
        notes: checkpoint sizes and durations, and anything odd.
    """

    metrics: dict[str, float]
    notes: dict[str, Any] = field(default_factory=dict)


class Bench:
    """Runs cases in scratch folders below one folder.

    Args:
        scratch: that folder.
        share: of the records, for quick sessions.
    """

    def __init__(self, scratch: Path, share: float = 1.0) -> None:
        self._scratch = scratch
        self._share = share
        self._restore_points: dict[plan.Case, Path] = {}
        self._gave_up: dict[plan.Case, Figure] = {}

    def measure(self, case: plan.Case, round_number: int) -> Figure:
        """Runs one case once.

        Raises:
            launch.RunError: the program failed.
            expected.WrongResultError: its answer is wrong.
        """
        if case.workload == "W5":
            return self._restart(case, round_number)
        folder = self._folder(case, f"round-{round_number}")
        orders = self._orders(case, folder, case.workload)
        limit_s = RUN_LIMIT_S + orders.records / SLOWEST_PER_S
        outcome = self._launch(case, orders, folder, limit_s)
        if outcome.timed_out:
            raise launch.RunError(f"no result within {limit_s:.0f} s")
        ends = marks(outcome, "end")
        if not ends or not marks(outcome, "start"):
            raise launch.RunError(f"no result:\n{launch.tail(folder / 'log.txt')}")
        notes = check(case, orders, ends)
        if orders.interval_ms:
            notes |= checkpoint_notes(outcome.marks, folder / "state")
        figure = Figure(metrics_of(case, orders, outcome, ends), notes)
        shutil.rmtree(folder / "state")
        return figure

    def _restart(self, case: plan.Case, round_number: int) -> Figure:
        if case in self._gave_up:
            # One wait for the whole limit tells as much as three.
            return self._gave_up[case]
        if case not in self._restore_points:
            self._restore_points[case] = self._fill(case)
        folder = self._folder(case, f"round-{round_number}")
        kept = self._restore_points[case]
        # Flink's checkpoints name absolute paths; the others change their store as they run.
        if case.program not in ("pyflink", "tidegate"):
            kept = Path(shutil.copytree(kept, folder / "state", dirs_exist_ok=True))
        orders = self._orders(case, folder, "W5", restore_path=str(kept))
        first = folder / "marks" / "first.json"
        outcome = self._launch(case, orders, folder, RESTART_LIMIT_S, first)
        if "first" not in outcome.marks:
            notes = {"no result within s": RESTART_LIMIT_S}
            self._gave_up[case] = Figure({"seconds": RESTART_LIMIT_S, **memory(outcome)}, notes)
            return self._gave_up[case]
        mark = outcome.marks["first"]
        expected.check_restored(orders, mark["triple"])
        return Figure({"seconds": (mark["at_ns"] - outcome.started_ns) / 1e9, **memory(outcome)})

    def _fill(self, case: plan.Case) -> Path:
        """Runs the job until its state is full and checkpointed, then kills it."""
        folder = self._folder(case, "fill")
        filling = plan.records_for(case, self._share)
        orders = self._orders(case, folder, "W5-fill", fill_records=filling)
        filled = folder / "marks" / "filled.json"
        outcome = self._launch(case, orders, folder, FILL_LIMIT_S, filled, SETTLE_S)
        point = systems.restore_point(case.program, folder / "state")
        if "filled" not in outcome.marks or point is None:
            raise launch.RunError(f"no full checkpoint:\n{launch.tail(folder / 'log.txt')}")
        return point

    def _folder(self, case: plan.Case, part: str) -> Path:
        folder = self._scratch / case.name / part
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "marks").mkdir(parents=True)
        (folder / "state").mkdir()
        return folder

    def _orders(self, case: plan.Case, folder: Path, workload: str, **more: Any) -> Orders:
        # W5 is killed, both times; its source must not end before that.
        endless = case.workload == "W5"
        records = case.records * 40 if endless else plan.records_for(case, self._share)
        if nexmark.is_query(workload):
            more["events"] = str(nexmark.events_file(self._scratch / "events", records, case.mode))
        return Orders(
            workload=workload,
            records=records,
            keys=plan.keys_for(case, self._share),
            marks_dir=str(folder / "marks"),
            state_dir=str(folder / "state"),
            backend=case.backend,
            parallelism=case.parallelism,
            shell="ray" if case.shell == "running" else case.shell,
            interval_ms=case.interval_ms,
            rate=case.rate,
            warmup_records=int(case.rate * plan.WARMUP_S * self._share) if case.workload == "W7" else 0,
            mode=case.mode,
            **more,
        )

    def _launch(
        self,
        case: plan.Case,
        orders: Orders,
        folder: Path,
        limit_s: float,
        until: Path | None = None,
        settle_s: float = 0.0,
    ) -> launch.Outcome:
        holder: contextlib.AbstractContextManager[RunningRay | None] = (
            running_ray(folder) if case.shell == "running" else contextlib.nullcontext()
        )
        with holder as ray:
            variables = systems.environment(case.program, case.parallelism)
            if nexmark.is_query(case.workload) and case.program == "pyflink":
                variables["PYTHONPATH"] += f"{os.pathsep}{nexmark.translated(self._scratch)}"
            outcome = launch.run(
                systems.command(case.program, orders),
                variables if ray is None else variables | ray.variables,
                folder / "marks",
                folder / "log.txt",
                limit_s,
                launch.settled(until, settle_s),
                None if ray is None else ray.pid,
            )
        # What a killed job leaves behind.
        shutil.rmtree(folder / "local", ignore_errors=True)
        return outcome


def check(case: plan.Case, orders: Orders, ends: list[dict[str, Any]]) -> dict[str, Any]:
    """Compares a run's answer with the right one; what is to be noted about it.

    Raises:
        expected.WrongResultError: it is wrong.
    """
    if case.workload == "changing":
        expected.check_changes(case.keys, case.keys * int(case.mode) // 100, orders.records, ends[0])
        return {}
    if nexmark.is_query(case.workload):
        nexmark.check(case.workload, Path(orders.events), orders.state_dir)
        return {}
    how = systems.how_to_check(case)
    return expected.check_totals(orders, ends, how)


def metrics_of(
    case: plan.Case, orders: Orders, outcome: launch.Outcome, ends: list[dict[str, Any]]
) -> dict[str, float]:
    """The figures of a run whose answer was right."""
    starts = marks(outcome, "start")
    started_ns, ended_ns = min(mark["at_ns"] for mark in starts), max(end["last_ns"] for end in ends)
    found = memory(outcome)
    records = sum(end.get("source_records", 0) for end in ends) or orders.records
    if case.workload == "start":
        return found | {"seconds": (ended_ns - outcome.started_ns) / 1e9}
    if case.workload == "changing":
        return found | changing_metrics(outcome)
    found["rate"] = records / (ended_ns - started_ns) * 1e6
    found["cpu_s"] = cpu_s(outcome, started_ns, ended_ns) / records * 1e6
    if case.workload == "W7":
        latencies: Counter[int] = Counter()
        for end in ends:
            latencies.update({int(bucket): count for bucket, count in end["latencies"].items()})
        shares = {"p50_ms": 0.5, "p99_ms": 0.99, "p999_ms": 0.999}
        found |= {name: percentile_ms(latencies, share) for name, share in shares.items()}
    return found


def cpu_s(outcome: launch.Outcome, from_ns: int, to_ns: int) -> float:
    """CPU seconds of all processes, without Ray's own, between the first record and the last."""
    return sum(_process_cpu_s(outcome, pid, from_ns, to_ns) for pid in outcome.cpu)


def _process_cpu_s(outcome: launch.Outcome, pid: int, from_ns: int, to_ns: int) -> float:
    """Those of one process: exact from source to sink if it has both, else on lines between what is known.

    That are the samples, and the process's marks: as its sink was ready for records, as its source was asked
    for the first, and as each was closed. So what it took to start stays out, and its last moments do not.
    """
    own = {name: mark for name, mark in outcome.marks.items() if mark["pid"] == pid}
    starts, ends = ([own[name]["cpu_ns"] for name in own if _kind(name) == kind] for kind in ("start", "end"))
    if starts and ends:
        return (max(ends) - min(starts)) / 1e9
    known = [*outcome.cpu[pid], *((mark["at_ns"], mark["cpu_ns"] / 1e9) for mark in own.values())]
    return cpu_between(sorted(known), from_ns, to_ns)


def changing_metrics(outcome: launch.Outcome) -> dict[str, float]:
    """Of the checkpoints after the state was full: medians."""
    filled_ms = outcome.marks["filled"]["wall_ms"]
    # The first one after that still holds what filled the state.
    taken = [c for c in outcome.marks["checkpoints"]["checkpoints"] if c["triggered_ms"] >= filled_ms][1:]
    if not taken:
        raise launch.RunError("no checkpoint was completed after the state was full")
    return {
        "checkpoint_ms": statistics.median(c["duration_ms"] for c in taken),
        "sync_ms": statistics.median(c["sync_ms"] for c in taken),
        "checkpoint_mb": statistics.median(c["size_bytes"] for c in taken) / 1e6,
    }


def memory(outcome: launch.Outcome) -> dict[str, float]:
    """The peak of the tree, the part of Ray's own processes in it, and the rest."""
    peak = outcome.peak()
    return {
        "memory_mib": peak.bytes / MIB,
        "ray_memory_mib": peak.ray_bytes / MIB,
        "own_memory_mib": (peak.bytes - peak.ray_bytes) / MIB,
    }


def checkpoint_notes(marks: dict[str, Any], state_dir: Path) -> dict[str, Any]:
    """Checkpoint count, durations and bytes written, as the system itself reports them.

    Bytewax and Pathway report nothing; for them the note is what their store holds at the end.
    """
    if "checkpoints" not in marks:
        return {"store MB": round(_size_bytes(state_dir) / 1e6, 1)}
    checkpoints = marks["checkpoints"]["checkpoints"]
    notes: dict[str, Any] = {"checkpoints": len(checkpoints)}
    if checkpoints:
        durations = [c["duration_ms"] for c in checkpoints]
        notes["median ms"] = round(statistics.median(durations))
        notes["longest ms"] = round(max(durations))
        notes["largest MB"] = round(max(c["size_bytes"] for c in checkpoints) / 1e6, 1)
    if checkpoints and "sync_ms" in checkpoints[0]:
        notes["longest sync ms"] = round(max(c["sync_ms"] for c in checkpoints), 1)
    return notes


def marks(outcome: launch.Outcome, kind: str) -> list[dict[str, Any]]:
    """The marks of one kind of all subtasks: `end`, `end-0`, `end-1` …"""
    return [mark for name, mark in outcome.marks.items() if _kind(name) == kind]


def _kind(name: str) -> str:
    return name.partition("-")[0]


def _size_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
