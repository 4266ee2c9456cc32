"""One seed: a random job in a random scheduler, run to its end and checked."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from ...common.errors import TidegateError
from ...common.job_status import JobStatus
from ...common.restart_strategy import RestartStrategies
from ...coordinator.spec import JobSettings
from ...protocol.checkpoints.trigger import TriggerPolicy
from ...state.backend import StateBackend
from ...state.live_backends import HashMapStateBackend
from ...state.lmdb_backend import LmdbStateBackend
from .checkers import check_output
from .draw_plan import draw_plan
from .external_system import ExternalSystem, new_external_system
from .faults.failed_starts import FailedStarts
from .faults.stalls import LEASE_MS
from .plan import ALIGNED_TIMEOUTS_MS, MODES, Plan
from .simulated_scheduler import SimulatedScheduler
from .simulated_shell import SimulatedShell

GAP_TIMEOUT_MS = 200
"""More than twice as long as a message can be on its way to a slow task."""
MAX_EVENTS = 150_000
MAX_MS = 60_000
"""Virtual time in which every job ends, however often it is interrupted."""


@dataclass
class Outcome:
    """What came of one seed."""

    seed: int
    problem: str | None
    events: int = 0
    crashes: int = 0
    checkpoints: int = 0
    files_read: int = 0
    """Files of state that were read from checkpoint storage."""
    log: list[str] = field(default_factory=list)


def run_seed(seed: int, keeps_log: bool = False) -> Outcome:
    """Run one seed.

    Args:
        seed: Decides everything.
        keeps_log: Whether to record what happens.
    """
    return run_plan(draw_plan(seed), keeps_log)


def run_plan(plan: Plan, keeps_log: bool = False) -> Outcome:
    """Run a plan in the world of its seed."""
    scheduler = SimulatedScheduler(plan.seed, keeps_log)
    outcome = Outcome(plan.seed, None)
    with ExitStack() as stack:
        try:
            _run(scheduler, plan, stack, outcome)
        except (AssertionError, TidegateError, LookupError, TypeError, ValueError) as error:
            outcome.problem = f"{type(error).__name__}: {error}"
    outcome.events = scheduler.events_run
    outcome.log = scheduler.log or []
    return outcome


def _run(scheduler: SimulatedScheduler, plan: Plan, stack: ExitStack, outcome: Outcome) -> None:
    def refuses(checkpoint_id: int) -> bool:
        probability = plan.faults.refused_notification
        if not probability or not scheduler.chance(probability):
            return False
        scheduler.note(f"a function refuses to hear of checkpoint {checkpoint_id}")
        return True

    external = new_external_system(refuses, FailedStarts(scheduler, plan).opening)
    shell = SimulatedShell(scheduler, plan, lambda uri: _settings(plan, stack, uri))
    try:
        shell.start()
        while not shell.is_over:
            assert scheduler.events_run < MAX_EVENTS, f"no end after {MAX_EVENTS} events: {shell.stuck()}"
            assert scheduler.elapsed_ms < MAX_MS, f"no end after {MAX_MS} ms: {shell.stuck()}"
            assert scheduler.run_next(), f"nothing happens any more: {shell.stuck()}"
            shell.after_event()
            assert not external.problems, external.problems[0]
        _check(shell, plan, external)
    finally:
        outcome.crashes = shell.crashes
        outcome.checkpoints = shell.checkpoints
        outcome.files_read = shell.storage.watcher.files_read


def _check(shell: SimulatedShell, plan: Plan, external: ExternalSystem) -> None:
    status = shell.current.status if shell.client is None else shell.client.status
    assert status is JobStatus.FINISHED, shell.stuck()
    check_output(plan, external.visible(), shell.attempts)
    if shell.stalls.is_used:
        # Coordinators that were stopped, and their tasks, may have written something after the end.
        shell.storage.watcher.check_savepoints()
        return
    shell.current.forget_end()
    shell.check_files()
    orphans = shell.storage.watcher.orphans()
    assert not orphans, f"files are left behind: {orphans}"
    shell.storage.watcher.check_savepoints()


def _settings(plan: Plan, stack: ExitStack, checkpoint_dir: str) -> JobSettings:
    drawn = plan.settings
    backend: StateBackend = HashMapStateBackend()
    local_dir = "unused"
    if drawn.on_disk:
        local_dir = stack.enter_context(tempfile.TemporaryDirectory(prefix="tidegate-sim-"))
        backend = replace(LmdbStateBackend(), memory_size_bytes=4_096)
    copies_dir = None
    if drawn.keeps_copies:
        copies_dir = stack.enter_context(tempfile.TemporaryDirectory(prefix="tidegate-sim-"))
    return JobSettings(
        state_backend=backend,
        local_dir=local_dir,
        local_snapshots_dir=copies_dir,
        trigger=TriggerPolicy(
            interval_ms=drawn.interval_ms,
            min_pause_ms=drawn.min_pause_ms,
            timeout_ms=drawn.timeout_ms,
            max_concurrent=drawn.max_concurrent,
            tolerable_failures=1_000,
        ),
        mode=MODES[drawn.mode],
        aligned_timeout_ms=ALIGNED_TIMEOUTS_MS.get(drawn.mode),
        max_buffered_bytes=drawn.max_buffered_bytes,
        checkpoint_dir=checkpoint_dir,
        inline_threshold_bytes=drawn.inline_threshold_bytes,
        num_retained=drawn.num_retained,
        keep_on_cancel=True,
        # A job that may start from nothing must find what ended jobs have left.
        keep_on_finish=any(run.handover.may_be_new for run in plan.runs),
        keep_on_fail=any(run.handover.may_be_new for run in plan.runs),
        restart_strategy=RestartStrategies.fixed_delay_restart(1_000, drawn.restart_delay_ms),
        batch_size=drawn.batch_size,
        buffer_timeout_ms=drawn.buffer_timeout_ms,
        channel_credit_bytes=drawn.channel_credit_bytes,
        gap_timeout_ms=GAP_TIMEOUT_MS,
        lease_ms=LEASE_MS,
    )
