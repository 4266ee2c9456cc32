"""One measured run: orders out, marks in, result checked, figures worked out."""

from __future__ import annotations

import shutil
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import expected, launch, plan, systems
from .peers.measure import Orders

RUN_LIMIT_S = 180.0
FILL_LIMIT_S = 300.0
RESTART_LIMIT_S = 60.0
# After the state is full, one more checkpoint must be complete before the kill.
SETTLE_S = 6.0


@dataclass(frozen=True)
class Figure:
    """What one run gave.

    Attributes:
        value: thousand records/s, or for W5 seconds from process start to the first result.
        peak_mib: peak resident size of the process tree.
        daemons_mib: the part of it that is Ray's own processes.
        notes: checkpoint sizes and durations, and anything odd.
    """

    value: float
    peak_mib: float
    daemons_mib: float
    notes: dict[str, Any]


class Bench:
    """Runs cases in scratch folders below one folder."""

    def __init__(self, scratch: Path, suite: str) -> None:
        self._scratch = scratch
        self._suite = suite
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
        outcome = self._launch(case, orders, folder, RUN_LIMIT_S)
        if outcome.timed_out:
            raise launch.RunError(f"no result within {RUN_LIMIT_S:.0f} s")
        ends = _marks(outcome, "end")
        if not ends or not _marks(outcome, "start"):
            raise launch.RunError(f"no result:\n{launch.tail(folder / 'log.txt')}")
        expected.check_totals(orders, ends, per_commit=case.program == "pathway")
        started_ns = min(mark["at_ns"] for mark in _marks(outcome, "start"))
        elapsed_ns = max(end["last_ns"] for end in ends) - started_ns
        notes = checkpoint_notes(outcome.marks, folder / "state") if orders.interval_ms else {}
        shutil.rmtree(folder / "state")
        return _figure(outcome, orders.records / elapsed_ns * 1e6, notes)

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
            self._gave_up[case] = _figure(outcome, RESTART_LIMIT_S, notes)
            return self._gave_up[case]
        mark = outcome.marks["first"]
        expected.check_restored(orders, mark["triple"])
        return _figure(outcome, (mark["at_ns"] - outcome.started_ns) / 1e9, {})

    def _fill(self, case: plan.Case) -> Path:
        """Runs the job until its state is full and checkpointed, then kills it."""
        folder = self._folder(case, "fill")
        orders = self._orders(case, folder, "W5-fill", fill_records=case.records)
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
        records = plan.records_for(case, self._suite)
        if case.workload == "W5":
            records *= 40
        return Orders(
            workload=workload,
            records=records,
            keys=case.keys,
            marks_dir=str(folder / "marks"),
            state_dir=str(folder / "state"),
            backend=case.backend,
            parallelism=case.parallelism,
            shell=case.shell,
            interval_ms=plan.CHECKPOINT_INTERVAL_MS if case.workload in ("W3", "W5") else 0,
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
        return launch.run(
            systems.command(case.program, orders),
            systems.environment(case.program),
            folder / "marks",
            folder / "log.txt",
            limit_s,
            launch.settled(until, settle_s),
        )


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


def _marks(outcome: launch.Outcome, kind: str) -> list[dict[str, Any]]:
    """The marks of one kind of all subtasks: `start`, `start-0`, `start-1` …"""
    return [mark for name, mark in outcome.marks.items() if name.partition("-")[0] == kind]


def _size_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _figure(outcome: launch.Outcome, value: float, notes: dict[str, Any]) -> Figure:
    mib = 2**20
    return Figure(value, outcome.peak_bytes / mib, outcome.peak_daemon_bytes / mib, notes)
