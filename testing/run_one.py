"""One seed: a random job in a random world, run to its end and checked."""

from __future__ import annotations

import tempfile
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from ..common.errors import TidegateError
from ..common.job_status import JobStatus
from ..coordinator.spec import JobSettings, JobSpec
from ..protocol.elements import CheckpointingMode
from ..protocol.failover import FixedDelayRestart
from ..protocol.ids import JobId
from ..protocol.trigger import TriggerPolicy
from ..state.backend import HashMapStateBackend, StateBackend
from ..state.lmdb_backend import LmdbStateBackend
from .mutants import planted
from .simulated_job import expected_output, job_graph, new_outside
from .simulated_shell import Faults, SimulatedShell
from .simulated_storage import SimulatedStorage
from .world import World

MAX_EVENTS = 60_000
LMDB_SHARE = 0.02


@dataclass
class Outcome:
    """What came of one seed."""

    seed: int
    problem: str | None
    events: int = 0
    crashes: int = 0
    checkpoints: int = 0
    log: list[str] = field(default_factory=list)


def run_seed(seed: int, mutant: str | None = None, keeps_log: bool = False) -> Outcome:
    """Run one seed.

    Args:
        seed: Decides everything.
        mutant: Name of a bug to plant, see `mutants`.
        keeps_log: Whether to record what happens.
    """
    world = World(seed, keeps_log)
    outcome = Outcome(seed, None)
    with ExitStack() as stack:
        if mutant is not None:
            stack.enter_context(planted(mutant))
        try:
            _run(world, stack, outcome)
        except (AssertionError, TidegateError, LookupError, TypeError, ValueError) as error:
            outcome.problem = f"{type(error).__name__}: {error}"
    outcome.events = world.events_run
    outcome.log = world.log or []
    return outcome


def _run(world: World, stack: ExitStack, outcome: Outcome) -> None:
    random = world.random
    splits, records = random.randint(1, 3), random.choice((8, 12, 20))
    graph = job_graph(random.randint(1, 2), random.randint(1, 3), random.randint(1, 2), splits, records)
    outside = new_outside()
    is_exact = random.random() < 0.9
    spec = JobSpec(JobId("simulated"), graph, _settings(world, stack, is_exact))
    storage = SimulatedStorage(world, random.choice((0.0, 0.0, 0.05)))
    shell = SimulatedShell(world, spec, storage, Faults())
    shell.start()
    while not shell.coordinator.status.is_globally_terminal_state():
        assert world.events_run < MAX_EVENTS, f"no end after {MAX_EVENTS} events: {shell.stuck()}"
        assert world.run_next(), f"nothing happens any more: {shell.stuck()}"
    outcome.crashes = shell.crashes
    outcome.checkpoints = len(shell.coordinator.statistics.checkpoints)
    failure = shell.coordinator.failure
    cause = failure.cause if failure is not None else ""
    assert shell.coordinator.status is JobStatus.FINISHED, f"{shell.stuck()}: {cause}"
    _check_output(Counter(outside.visible()), expected_output(splits, records), is_exact)
    left = storage.list_files("")
    assert not left, f"files are left behind: {left}"


def _settings(world: World, stack: ExitStack, is_exact: bool) -> JobSettings:
    random = world.random
    backend: StateBackend = HashMapStateBackend()
    local_dir = "unused"
    if random.random() < LMDB_SHARE:
        local_dir = stack.enter_context(tempfile.TemporaryDirectory(prefix="tidegate-sim-"))
        backend = replace(LmdbStateBackend(), memory_size_bytes=4_096)
    # Before the other draws that may follow: an unaligned checkpoint excludes a second one at once.
    aligned_timeout_ms = random.choice((None, 0, 3, 20)) if is_exact else None
    return JobSettings(
        state_backend=backend,
        local_dir=local_dir,
        trigger=TriggerPolicy(
            interval_ms=random.choice((5, 15, 40)),
            min_pause_ms=random.choice((0, 3)),
            timeout_ms=random.choice((60, 1_000)),
            max_concurrent=random.choice((1, 1, 2)) if aligned_timeout_ms is None else 1,
            tolerable_failures=1_000,
        ),
        mode=CheckpointingMode.EXACTLY_ONCE if is_exact else CheckpointingMode.AT_LEAST_ONCE,
        aligned_timeout_ms=aligned_timeout_ms,
        max_buffered_bytes=random.choice((None, None, None, 256)),
        checkpoint_dir="simulated",
        inline_threshold_bytes=random.choice((0, 2_000, 20 << 10)),
        num_retained=random.choice((1, 2)),
        restart_strategy=FixedDelayRestart(1_000, random.choice((0, 5))),
        batch_size=random.choice((1, 2, 5)),
        buffer_timeout_ms=random.choice((0, 2)),
        channel_credit_bytes=random.choice((64, 320)),
    )


def _check_output(visible: Counter[object], expected: Counter[object], is_exact: bool) -> None:
    if is_exact:
        missing, extra = expected - visible, visible - expected
        assert not missing, f"lost: {_some(missing)}"
        assert not extra, f"doubled or wrong: {_some(extra)}"
        return
    seen = {value[:3] for value in visible}  # type: ignore[index]
    lost = [value for value in expected if value[:3] not in seen]  # type: ignore[index]
    assert not lost, f"lost: {lost[:3]}"


def _some(values: Counter[object]) -> str:
    shown = ", ".join(f"{count} times {value}" for value, count in list(values.items())[:3])
    return f"{sum(values.values())} records, such as {shown}"
