"""Runs a user's own job under crashes and random schedules, and compares what comes out."""

from __future__ import annotations

import inspect
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from ..common.errors import ConfigurationError, JobExecutionError, TidegateError
from ..common.job_status import JobStatus
from ..common.restart_strategy import RestartStrategies
from ..coordinator.spec import JobSettings, JobSpec
from ..datastream import DataStream, HashMapStateBackend, StreamExecutionEnvironment
from ..datastream.submission import JobIntercepted, intercepted_submissions
from ..protocol.checkpoints.trigger import TriggerPolicy
from ..protocol.scheduling.plan import JobGraph
from .simulation.draw_plan import draw_plan
from .simulation.external_system import new_external_system
from .simulation.plan import (
    ALIGNED_TIMEOUTS_MS,
    MODES,
    Crash,
    Faults,
    Plan,
    Run,
    Victim,
)
from .simulation.simulated_operators import SimulatedSink
from .simulation.simulated_scheduler import SimulatedScheduler
from .simulation.simulated_shell import SimulatedShell

_LEAST_EVENTS = 60_000
_EVENTS_PER_EVENT = 50
"""A run may take so many times as many events as one that nothing disturbs."""
_SHOWN_RECORDS = 5
_SHOWN_EVENTS = 40
_VICTIMS = {
    Victim.TASK: 0.8,
    Victim.TASK_INSIDE: 0.4,
    Victim.COORDINATOR: 0.8,
    Victim.COORDINATOR_INSIDE: 0.15,
    Victim.PARTITIONED: 0.8,
}
"""What crashes, and up to when, as a share of the events of an undisturbed run."""

Job = Callable[..., Any]


class ExactlyOnceViolation(AssertionError):
    """A run gave something else than an undisturbed one.

    Attributes:
        seed: Of the run.
        problem: What is wrong with its output.
        crashes: What crashed in it.
    """

    def __init__(self, message: str, seed: int, problem: str, crashes: tuple[Crash, ...]) -> None:
        super().__init__(message)
        self.seed = seed
        self.problem = problem
        self.crashes = crashes


@dataclass(frozen=True)
class VerificationReport:
    """What `verify_exactly_once` did. Look at it once: without crashes and checkpoints it proves nothing.

    Attributes:
        seeds: How many runs there were.
        crashes: How many crashes they had.
        checkpoints: How many checkpoints they completed.
        attempts: How often tasks were deployed.
        records: How many records the output has.
    """

    seeds: int
    crashes: int
    checkpoints: int
    attempts: int
    records: int


def verify_exactly_once(
    job: Job,
    crashes: int = 2,
    seeds: int | Iterable[int] = 20,
    *,
    output: Callable[[], Iterable[Any]] | None = None,
    reset: Callable[[], None] | None = None,
    compare: Callable[[list[Any]], Any] | None = None,
) -> VerificationReport:
    """Run a job in the simulator, once undisturbed and once per seed with crashes, and compare its outputs.

    Every run has real operators, state, checkpoints and recovery, in one thread, with virtual time. A seed
    decides everything else: the order in which things happen, the settings of checkpoints, what crashes
    and when. So a seed that fails once fails always.

    Args:
        job: Takes a `StreamExecutionEnvironment` and builds the job on it, from bounded sources. It returns
            the stream whose records are the output; or it ends in sinks of its own, and `output` is given.
            Or a program without parameters that calls `execute()` itself.
        crashes: How many crashes each run has, of tasks and of the coordinator.
        seeds: How many runs, or which seeds.
        output: Reads what the job's own sinks made visible so far.
        reset: Removes what earlier runs made visible; called before every run.
        compare: Makes of an output what has to be equal. By default these are the records in any order. Where
            a correct job may give different records, as a running count over two inputs does, compare what
            must not differ, as the last count of each key.

    Raises:
        ExactlyOnceViolation: A run gave something else; the message says how to replay it.
        JobExecutionError: The job fails without any crash.
        ConfigurationError: There is no output to look at.
    """
    graph, own_settings, has_stream = _built(job)
    if output is None and not has_stream:
        raise ConfigurationError(
            "verify_exactly_once() has no output to look at: let the job return a stream, or pass output=..."
        )
    runs = _Runs(graph, own_settings, output, reset, compare)
    numbers = range(1, seeds + 1) if isinstance(seeds, int) else tuple(seeds)
    before = logging.root.manager.disable
    # Crashes are meant to happen; what they lead to is checked, not logged.
    logging.disable(max(before, logging.ERROR))
    try:
        reference = runs.undisturbed()
        results = [runs.verify(seed, crashes, reference) for seed in numbers]
    finally:
        logging.disable(before)
    return VerificationReport(
        len(results),
        sum(result.crashes for result in results),
        sum(result.checkpoints for result in results),
        sum(result.attempts for result in results),
        len(reference.values),
    )


@dataclass
class _Result:
    """What came of one run."""

    values: list[Any]
    problem: str | None
    events: int
    crashes: int
    checkpoints: int
    attempts: int
    log: list[str]


class _Runs:
    """Runs of one job."""

    def __init__(
        self,
        graph: JobGraph,
        own_settings: JobSettings,
        output: Callable[[], Iterable[Any]] | None,
        reset: Callable[[], None] | None,
        compare: Callable[[list[Any]], Any] | None,
    ) -> None:
        self._graph = graph
        self._own_settings = own_settings
        self._output = output
        self._reset = reset
        self._compare = compare
        self._most_events = _LEAST_EVENTS

    def undisturbed(self) -> _Result:
        """The run that the others are compared with."""
        calm = Faults(duplicate=0.0, lost_notification=0.0, zombie_work=0.0)
        result = self._run(_plan(0, calm), restarts=False)
        if result.problem is not None:
            raise JobExecutionError(f"the job fails without any crash: {result.problem}")
        if not result.values:
            raise ConfigurationError(
                "the undisturbed run has no output, so nothing would be compared. If output=... reads a "
                "variable of this process: functions are pickled, and one that is defined in the main "
                "program or in another function takes a copy of it along; write to a file or a database"
            )
        self._most_events = max(_LEAST_EVENTS, _EVENTS_PER_EVENT * result.events)
        return result

    def verify(self, seed: int, crashes: int, reference: _Result) -> _Result:
        """One seed; raises `ExactlyOnceViolation` if its output differs."""
        plan = _plan(seed, replace(draw_plan(seed).faults, refused_notification=0.0))
        disturbed = _with_crashes(plan, crashes, reference.events)
        result = self._run(disturbed)
        problem = self._problem(result, reference)
        if problem is not None:
            self._report(disturbed, problem, crashes, reference)
        return result

    def _problem(self, result: _Result, reference: _Result) -> str | None:
        if result.problem is not None:
            return result.problem
        if self._compare is None:
            return _difference(reference.values, result.values)
        expected, got = self._compare(reference.values), self._compare(result.values)
        return None if expected == got else f"expected {expected!r:.500}, got {got!r:.500}"

    def _report(self, plan: Plan, problem: str, crashes: int, reference: _Result) -> None:
        """Raise what is wrong, with the log of the run and how to run it again."""
        calm = replace(plan, faults=replace(plan.faults, crashes=()))
        advice = ""
        if self._problem(self._run(calm), reference) is not None:
            advice = (
                "\nIts output also differs without any crash: it depends on the order in which records meet. "
                "If that is right for this job, pass compare=... for what must not differ."
            )
        again = self._run(plan, keeps_log=True)
        log = "\n".join(f"    {line}" for line in again.log[-_SHOWN_EVENTS:])
        crashed = ", ".join(f"{crash.victim.value} at {crash.at}" for crash in plan.faults.crashes)
        raise ExactlyOnceViolation(
            f"seed {plan.seed}: {problem}{advice}\n"
            f"  crashes: {crashed or 'none'}\n"
            f"  replay: verify_exactly_once(job, crashes={crashes}, seeds=[{plan.seed}])\n"
            f"  what happened last:\n{log}",
            plan.seed,
            problem,
            plan.faults.crashes,
        )

    def _run(self, plan: Plan, restarts: bool = True, keeps_log: bool = False) -> _Result:
        if self._reset is not None:
            self._reset()
        scheduler = SimulatedScheduler(plan.seed, keeps_log)
        external = new_external_system(lambda checkpoint_id: False)
        settings = _settings(plan, self._own_settings, restarts)
        shell = _UserShell(scheduler, plan, self._graph, settings)
        problem = None
        try:
            self._to_the_end(scheduler, shell)
        except (AssertionError, TidegateError) as error:
            problem = f"{type(error).__name__}: {error}"
        finally:
            shell.close_event_loops()
        values = list(external.visible() if self._output is None else self._output())
        return _Result(
            values,
            problem,
            scheduler.events_run,
            shell.crashes,
            shell.checkpoints,
            shell.attempts,
            scheduler.log or [],
        )

    def _to_the_end(self, scheduler: SimulatedScheduler, shell: _UserShell) -> None:
        shell.start()
        while not shell.is_over:
            if scheduler.events_run >= self._most_events:
                raise AssertionError(
                    f"the job has not ended after {self._most_events} events; are its sources bounded? "
                    f"{shell.stuck()}"
                )
            if not scheduler.run_next():
                raise AssertionError(f"nothing happens any more: {shell.stuck()}")
            shell.after_event()
        if shell.current.status is not JobStatus.FINISHED:
            raise AssertionError(shell.stuck())


class _UserShell(SimulatedShell):
    """The simulated shell with a job of the user's."""

    def __init__(
        self,
        scheduler: SimulatedScheduler,
        plan: Plan,
        graph: JobGraph,
        settings: Callable[[str], JobSettings],
    ) -> None:
        self._user_graph = graph
        super().__init__(scheduler, plan, settings)

    def new_graph(self, run: int) -> JobGraph:
        return self._user_graph


def _plan(seed: int, faults: Faults) -> Plan:
    """The settings that a seed draws, with a mode that promises exactly once, and periodic checkpoints."""
    drawn = draw_plan(seed)
    settings = replace(
        drawn.settings,
        mode=drawn.settings.mode if drawn.settings.mode != "at-least-once" else "exactly-once",
        interval_ms=drawn.settings.interval_ms or 15,
        max_concurrent=1,
        on_disk=False,
    )
    return Plan(seed, (), 0, 0, (Run(()),), settings, faults)


def _with_crashes(plan: Plan, count: int, events: int) -> Plan:
    """Crashes at random moments of a run of so many events."""
    random = Random(f"crashes of {plan.seed}")
    victims = [random.choice(list(_VICTIMS)) for _ in range(count)]
    crashes = tuple(Crash(each, random.randint(1, 1 + int(_VICTIMS[each] * events))) for each in victims)
    return replace(plan, faults=replace(plan.faults, crashes=crashes))


def _settings(plan: Plan, own: JobSettings, restarts: bool) -> Callable[[str], JobSettings]:
    """Settings of a job in a plan, given the address of its checkpoints."""
    drawn = plan.settings
    settings = JobSettings(
        state_backend=HashMapStateBackend(),
        local_dir="unused",
        mode=MODES[drawn.mode],
        aligned_timeout_ms=ALIGNED_TIMEOUTS_MS.get(drawn.mode),
        inline_threshold_bytes=drawn.inline_threshold_bytes,
        num_retained=drawn.num_retained,
        restart_strategy=RestartStrategies.fixed_delay_restart(1_000, drawn.restart_delay_ms)
        if restarts
        else RestartStrategies.no_restart(),
        batch_size=drawn.batch_size,
        buffer_timeout_ms=drawn.buffer_timeout_ms,
        channel_credit_bytes=drawn.channel_credit_bytes,
        job_parameters=own.job_parameters,
    )
    assert drawn.interval_ms is not None, "_plan() gives every plan an interval"
    trigger = TriggerPolicy(
        interval_ms=drawn.interval_ms,
        min_pause_ms=drawn.min_pause_ms,
        timeout_ms=drawn.timeout_ms,
        max_concurrent=drawn.max_concurrent,
        tolerable_failures=1_000,
    )
    return lambda uri: replace(settings, trigger=trigger, checkpoint_dir=uri)


def _built(job: Job) -> tuple[JobGraph, JobSettings, bool]:
    """The graph and settings of a job, and whether its output is a stream."""
    specs: list[JobSpec] = []
    has_stream = False
    with intercepted_submissions(specs.append):
        try:
            if inspect.signature(job).parameters:
                env = StreamExecutionEnvironment.get_execution_environment()
                result = job(env)
                if isinstance(result, DataStream):
                    has_stream = True
                    result.sink_to(SimulatedSink()).uid("verified output")
                env.execute()
            else:
                job()
        except JobIntercepted:
            pass
    if len(specs) != 1:
        raise ConfigurationError("the program has to execute() one job, as it would in production")
    return specs[0].graph, specs[0].settings, has_stream


def _difference(expected: list[Any], got: list[Any]) -> str | None:
    """What two outputs do not have in common, order apart."""
    wanted, found = Counter(map(_hashable, expected)), Counter(map(_hashable, got))
    parts = []
    for name, difference in (("lost", wanted - found), ("too many", found - wanted)):
        if difference:
            shown = ", ".join(f"{record!r:.100}" for record in list(difference)[:_SHOWN_RECORDS])
            parts.append(f"{difference.total()} records {name}, such as {shown}")
    return "; ".join(parts) or None


def _hashable(record: Any) -> Any:
    try:
        hash(record)
    except TypeError:
        return repr(record)
    return record
