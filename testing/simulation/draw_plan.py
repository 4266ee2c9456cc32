"""Draws the plan of a seed."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from ...protocol.scheduling.partitioning import Partitioning
from ...protocol.scheduling.plan import Chaining
from .faults.failed_starts import draw_failed_starts
from .faults.stalls import draw_stalls
from .plan import (
    ALIGNED_TIMEOUTS_MS,
    Ask,
    Crash,
    Ending,
    Faults,
    Handover,
    Link,
    Plan,
    Request,
    Run,
    Settings,
    Stage,
    StageKind,
    Victim,
)

_MODE_SHARES = {"exactly-once": 5, "unaligned": 3, "aligned at first": 2, "at-least-once": 1}
_CHANGE_SHARES = {"exactly-once": 2, "unaligned": 2, "aligned at first": 1, "at-least-once": 2}
"""Of the modes that people change to: going to at-least-once and back is the greatest change."""
_LMDB_SHARE = 0.02
_COPIES_SHARE = 0.08
_RESCALED_SHARE = 0.3
_LOSSES_SHARE = 0.15
_ABANDONED_SHARE = 0.12
_NEW_SHARE = 0.2
"""How many of them start from nothing if there is no checkpoint yet, which happens early."""
_MOST_RUNS = 3
_EXTRA_STATES = ("map", "list", "reducing", "aggregating", "folding")
_SPREAD = (
    Partitioning.REBALANCE,
    Partitioning.RESCALE,
    Partitioning.SHUFFLE,
    Partitioning.GLOBAL,
    Partitioning.CUSTOM,
)
"""Exchanges that a stage without keys may have."""
_EVENTS_OF_A_JOB = 1_500
"""About as many events a job without failures takes; crashes are planned within them."""
_POINTS_OF_A_JOB = 900
"""About as many calls its tasks make to their shell; crashes inside a step are planned within them."""
_POINTS_OF_A_COORDINATOR = 400
_ENDING_SHARES = {
    Ending.CANCEL: 3,
    Ending.REPLACE: 4,
    Ending.STOP: 3,
    Ending.DRAIN: 1,
    Ending.GO_BACK: 1,
}
_SHARES_PROCESSES = 8
"""In one of this many seeds the subtasks of a slot share a process; the others stay what they were."""
_HOLDS_CREDIT = 5
"""The rest of the seeds in which tasks hold credit back, by the same number."""


def draw_plan(seed: int) -> Plan:
    """The plan of a seed."""
    random = Random(f"plan of {seed}")
    stages = draw_stages(random)
    sources = sum(stage.kind is StageKind.SOURCE for stage in stages)
    splits = random.choice((1, 1, 2)) if sources > 1 else random.choice((1, 2, 3))
    records = max(4, random.choice((20, 20, 32, 32, 48, 48, 90)) // (sources * splits))
    settings = _draw_settings(random)
    faults = _draw_faults(random)
    runs = _draw_runs(random, stages)
    requests = _draw_requests(random, runs, settings)
    shares_processes = seed % _SHARES_PROCESSES == 0
    plan = Plan(seed, stages, splits, records, runs, settings, faults, requests, shares_processes)
    plan = replace(plan, holds_credit=seed % _SHARES_PROCESSES == _HOLDS_CREDIT)
    # Drawn by themselves: the other seeds stay what they were.
    plan = replace(plan, faults=replace(plan.faults, stalls=draw_stalls(Random(f"stalls of {seed}"))))
    plan = _with_losses(plan, Random(f"losses of {seed}"))
    plan = _with_rescales(plan, Random(f"rescales of {seed}"))
    plan = _with_abandoned_jobs(plan, Random(f"abandoned jobs of {seed}"))
    plan = _with_power_failures(plan, Random(f"power of {seed}"))
    lost_manifest = Random(f"lost manifests of {seed}").choice((0.0, 0.0, 0.5))
    failed_starts = draw_failed_starts(seed)
    return replace(
        plan, faults=replace(plan.faults, lost_manifest=lost_manifest, failed_starts=failed_starts)
    )


def _with_power_failures(plan: Plan, random: Random) -> Plan:
    if random.random() < 0.6:
        return plan
    moments = tuple(sorted(random.randrange(50, 1_200) for _ in range(random.choice((1, 1, 2)))))
    return replace(plan, faults=replace(plan.faults, power_failures=moments))


def draw_stages(random: Random) -> tuple[Stage, ...]:
    """A random graph: sources, some operators over them, and sinks at its open ends."""
    stages = [Stage(f"s{number}", StageKind.SOURCE) for number in range(random.choice((1, 1, 2, 2, 3, 4)))]
    ends = list(range(len(stages)))
    steps = random.choice((1, 1, 2, 2, 3))
    for step in range(steps):
        has_state = any(stage.kind in (StageKind.COUNT, StageKind.JOIN) for stage in stages)
        kind = StageKind.COUNT if step == steps - 1 and not has_state else _draw_kind(random, ends)
        stage, used = _draw_stage(random, kind, ends, f"{kind.value}{step}")
        if step == 0 and random.random() < 0.1:
            used = used[1:]  # what is read here goes on besides
        ends = [end for end in ends if end not in used] + [len(stages)]
        stages.append(stage)
    sinks = 2 if len(ends) > 1 and random.random() < 0.3 else 1
    for number in range(sinks):
        inputs = _draw_links(random, ends[number::sinks], (Partitioning.REBALANCE, Partitioning.HASH))
        has_transactions = random.random() < 0.5
        stages.append(Stage(f"sink{number}", StageKind.SINK, inputs, has_transactions=has_transactions))
    return tuple(stages)


def _draw_kind(random: Random, ends: list[int]) -> StageKind:
    kinds = [StageKind.COUNT, StageKind.COUNT, StageKind.MAP, StageKind.BUFFER, StageKind.SHARE]
    kinds.append(StageKind.DELAY)
    if len(ends) > 1:
        kinds += [StageKind.JOIN, StageKind.JOIN]
    return random.choice(kinds)


def _draw_stage(random: Random, kind: StageKind, ends: list[int], uid: str) -> tuple[Stage, list[int]]:
    used = random.sample(ends, random.randint(2 if kind is StageKind.JOIN else 1, len(ends)))
    states: tuple[str, ...] = ()
    if kind in (StageKind.COUNT, StageKind.JOIN):
        states = tuple(random.sample(_EXTRA_STATES, random.choice((0, 1, 1, 2))))
    if kind in (StageKind.COUNT, StageKind.DELAY):
        inputs = tuple(Link(end, Partitioning.HASH) for end in used)
    elif kind is StageKind.JOIN:
        second = random.choice((Partitioning.HASH, Partitioning.HASH, Partitioning.BROADCAST))
        inputs = (*(Link(end, Partitioning.HASH) for end in used[:-1]), Link(used[-1], second, 1))
    elif kind is StageKind.SHARE:
        inputs = tuple(Link(end, Partitioning.BROADCAST) for end in used)
    else:
        inputs = _draw_links(random, used, _SPREAD)
    chaining = random.choice((Chaining.ALWAYS, Chaining.ALWAYS, Chaining.HEAD, Chaining.NEVER))
    keys, is_skewed = random.choice((2, 5)), random.random() < 0.2
    is_timed = kind is StageKind.DELAY and random.random() < 0.5
    return Stage(uid, kind, inputs, states, keys, is_skewed, chaining, is_timed=is_timed), used


def _draw_links(random: Random, used: list[int], spread: tuple[Partitioning, ...]) -> tuple[Link, ...]:
    if len(used) == 1 and random.random() < 0.5:
        return (Link(used[0], Partitioning.FORWARD),)
    return tuple(Link(end, random.choice(spread)) for end in used)


def _draw_runs(random: Random, stages: tuple[Stage, ...]) -> tuple[Run, ...]:
    count = random.choice((1, 1, 1, 2, 2, 3))
    runs = []
    for number in range(count):
        is_last = number == count - 1
        ends_at = None if is_last else random.randint(200, _EVENTS_OF_A_JOB)
        ending = random.choices(list(_ENDING_SHARES), list(_ENDING_SHARES.values()))[0]
        handover = Handover(*(random.random() < 0.5 for _ in range(4)))
        runs.append(Run(_draw_parallelism(random, stages), ends_at, ending, handover))
    return tuple(runs)


def _draw_requests(random: Random, runs: tuple[Run, ...], settings: Settings) -> tuple[Request, ...]:
    is_periodic = settings.interval_ms is not None
    asks = [Ask.CHECKPOINT] * (random.choice((0, 0, 1, 3)) if is_periodic else random.randint(3, 12))
    goes_back = any(run.ending is Ending.GO_BACK for run in runs)
    savepoints = random.randint(2, 5) if goes_back else random.choice((0, 0, 0, 1, 2))
    asks += random.choices((Ask.CANONICAL, Ask.NATIVE), k=savepoints)
    requests = [Request(random.randint(1, _EVENTS_OF_A_JOB), ask) for ask in asks]
    for _ in range(random.choice((0, 0, 0, 0, 0, 1, 2, 4))):
        mode = random.choices(list(_CHANGE_SHARES), list(_CHANGE_SHARES.values()))[0]
        requests.append(Request(random.randint(1, _EVENTS_OF_A_JOB), Ask.MODE, mode))
    return tuple(requests)


def _with_losses(plan: Plan, random: Random) -> Plan:
    if random.random() >= _LOSSES_SHARE:
        return plan
    return replace(plan, faults=replace(plan.faults, losses=random.choice((1, 2, 3))))


def _with_rescales(plan: Plan, random: Random) -> Plan:
    if random.random() >= _RESCALED_SHARE:
        return plan
    rescales = tuple(
        Request(
            random.randint(1, _EVENTS_OF_A_JOB),
            Ask.RESCALE,
            parallelism=_draw_parallelism(random, plan.stages),
        )
        for _ in range(random.choice((1, 1, 2, 4)))
    )
    faults = replace(
        plan.faults, no_room=random.choice((0.0, 0.3)), crash_at_rescale=random.choice((0.0, 0.5, 0.8))
    )
    return replace(plan, faults=faults, requests=(*plan.requests, *rescales))


def _with_abandoned_jobs(plan: Plan, random: Random) -> Plan:
    if random.random() >= _ABANDONED_SHARE:
        return plan
    runs = list(plan.runs)
    first = random.randrange(min(len(runs), _MOST_RUNS - 1))
    last = min(first + random.choice((0, 0, 1)), _MOST_RUNS - 2)
    ends_at = first_ends_at = random.randint(100, _EVENTS_OF_A_JOB)
    for index in range(first, last + 1):
        handover = Handover(is_claimed=random.random() < 0.5, is_moved=random.random() < 0.5)
        if index == len(runs) - 1:
            runs.append(Run(_draw_parallelism(random, plan.stages)))
        runs[index] = replace(runs[index], ends_at=ends_at, ending=Ending.ABANDON, handover=handover)
        ends_at += random.randint(100, _EVENTS_OF_A_JOB // 2)
    if random.random() < _NEW_SHARE:
        new = replace(runs[first].handover, may_be_new=True)
        runs[first] = replace(runs[first], ends_at=random.randint(1, 2 * first_ends_at), handover=new)
    return replace(plan, runs=tuple(runs))


def _draw_parallelism(random: Random, stages: tuple[Stage, ...]) -> tuple[int, ...]:
    drawn: list[int] = []
    for stage in stages:
        own = random.choice((1, 1, 2, 2, 3)) if len(stages) < 6 else random.choice((1, 1, 2))
        drawn.append(own if stage.follows is None else drawn[stage.follows])
    return tuple(drawn)


def _draw_settings(random: Random) -> Settings:
    mode = random.choices(list(_MODE_SHARES), list(_MODE_SHARES.values()))[0]
    keeps_copies = random.random() < _COPIES_SHARE
    interval_ms = random.choice((5, 5, 15, 15, 40, 40, None))
    max_concurrent = random.choice((1, 1, 2)) if interval_ms is not None else 3
    return Settings(
        mode=mode,
        interval_ms=interval_ms,
        min_pause_ms=random.choice((0, 3)),
        timeout_ms=random.choice((60, 1_000)),
        max_concurrent=1 if mode in ALIGNED_TIMEOUTS_MS else max_concurrent,
        inline_threshold_bytes=0 if keeps_copies else random.choice((0, 2_000, 20 << 10)),
        num_retained=random.choice((1, 2)),
        restart_delay_ms=random.choice((0, 5)),
        batch_size=random.choice((1, 2, 5)),
        buffer_timeout_ms=random.choice((0, 2)),
        channel_credit_bytes=random.choice((64, 320)),
        on_disk=random.random() < _LMDB_SHARE,
        max_buffered_bytes=random.choice((None, None, None, 256)),
        keeps_copies=keeps_copies,
    )


def _draw_faults(random: Random) -> Faults:
    crashes = [
        _draw_crash(random, (Victim.TASK, Victim.TASK_INSIDE)) for _ in range(random.choice((0, 1, 2)))
    ]
    if random.random() < 0.5:
        coordinators = (Victim.COORDINATOR, Victim.COORDINATOR_INSIDE, Victim.PARTITIONED)
        crashes.append(_draw_crash(random, coordinators))
    return Faults(
        refused_notification=random.choice((0.0, 0.0, 0.0, 0.05)),
        lost_trigger=random.choice((0.0, 0.0, 0.1)),
        slow_channel=random.choice((0.0, 0.0, 0.2)),
        slow_task=random.choice((0.0, 0.0, 0.0, 0.2)),
        failed_write=random.choice((0.0, 0.0, 0.05)),
        damaged_copy=random.choice((0.0, 0.3)),
        crashes=tuple(crashes),
        repeated_crash=random.choice((0.0, 0.0, 0.5)),
        crash_at_stop=random.choice((0.0, 0.5)),
    )


def _draw_crash(random: Random, victims: tuple[Victim, ...]) -> Crash:
    victim = random.choice(victims)
    bounds = {
        Victim.TASK_INSIDE: _POINTS_OF_A_JOB,
        Victim.COORDINATOR_INSIDE: _POINTS_OF_A_COORDINATOR,
    }
    return Crash(victim, random.randint(1, bounds.get(victim, _EVENTS_OF_A_JOB)))
