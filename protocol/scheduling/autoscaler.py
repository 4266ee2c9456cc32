"""How many subtasks each part of a job needs, from how busy they are. Pure: time and metrics are arguments.

Source: the autoscaler of Flink's Kubernetes operator, whose names the settings have, and DS2 (Kalavri et
al., OSDI 2018): the useful work of an operator grows with the rate of its records. One thing is different on
purpose: an operator with a subtask that has no time left is never made smaller, whatever the rates say.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ...common.options.elasticity_options import AutoscalerOptions as Options

FULLY_BUSY = 0.95
"""The share of its time from which a subtask counts as having none left."""

_MOST_BLOCKED = 0.9
"""Of an operator that is held back for longer nobody knows how fast it would be."""


@dataclass(frozen=True, slots=True)
class AutoscalerSettings:
    """What the autoscaler aims at.

    Attributes:
        target: The share of its time in which an operator should be busy.
        lower: Below it an operator is made smaller.
        upper: Above it an operator is made larger.
        window_ms: Metrics are averages over so long.
        stabilization_ms: After the job began to run nothing is decided for so long.
        scale_down_ms: An operator gets as many subtasks as it needed most within so long.
        most_growth: An operator may have so many times its subtasks more.
        most_shrinkage: It may lose this share of its subtasks.
        is_scale_down_enabled: Whether anything is made smaller.
        lag_ms: A job whose event time is further behind has to catch up.
        catch_up_ms: In so long.
        lowest: The fewest subtasks of an operator.
        highest: The most.
        excluded: Uids of operators that stay as they are.
    """

    target: float = Options.TARGET.default
    lower: float = Options.LOWER.default
    upper: float = Options.UPPER.default
    window_ms: int = Options.WINDOW.default.to_millis()
    stabilization_ms: int = Options.STABILIZATION.default.to_millis()
    scale_down_ms: int = Options.SCALE_DOWN_INTERVAL.default.to_millis()
    most_growth: float = Options.MOST_GROWTH.default
    most_shrinkage: float = Options.MOST_SHRINKAGE.default
    is_scale_down_enabled: bool = Options.SCALE_DOWN_ENABLED.default
    lag_ms: int = Options.LAG.default.to_millis()
    catch_up_ms: int = Options.CATCH_UP.default.to_millis()
    lowest: int = Options.LOWEST.default
    highest: int = Options.HIGHEST.default
    excluded: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class SubtaskLoad:
    """Shares of its time in which a subtask worked, and in which it was held back by others."""

    busy: float
    backpressured: float


@dataclass(frozen=True, slots=True)
class GroupLoad:
    """Operators that change together, at one moment.

    Attributes:
        key: The uid of its first operator.
        uids: Of all of them.
        inputs: Keys of the groups that its records come from.
        parallelism: Its subtasks of a task.
        highest: The most that it can have.
        is_fixed: Whether the program limited it to one subtask.
        subtasks: By task; those that have said nothing yet are not in it.
        lag_ms: How far its event time is behind the clock, `None` if it has none.
    """

    key: str
    uids: tuple[str, ...]
    inputs: tuple[str, ...]
    parallelism: int
    highest: int
    is_fixed: bool
    subtasks: tuple[Sequence[SubtaskLoad], ...]
    lag_ms: int | None = None


@dataclass(frozen=True, slots=True)
class _Mean:
    """One group over the window: its busiest task, its hottest subtask, and how it was held back."""

    busy: float
    hottest: float
    backpressured: float
    lag_ms: int | None


class AutoscalerPolicy:
    """Decides for one job, from samples that come in order."""

    def __init__(self, settings: AutoscalerSettings) -> None:
        self._settings = settings
        self._samples: deque[tuple[int, Mapping[str, GroupLoad]]] = deque()
        self._needs: dict[str, deque[tuple[int, int]]] = {}
        self._running_since_ms: int | None = None

    def decide(self, now_ms: int, running_since_ms: int, groups: Iterable[GroupLoad]) -> dict[str, int]:
        """What to change: new parallelism by the key of a group; empty for nothing.

        Args:
            now_ms: Now; samples before the job began to run are forgotten.
            running_since_ms: When all subtasks of the present attempt began to run.
            groups: All groups of the job.
        """
        sample = {group.key: group for group in groups}
        if running_since_ms != self._running_since_ms:
            self._running_since_ms = running_since_ms
            self._samples.clear()
        self._samples.append((now_ms, sample))
        while self._samples[0][0] < now_ms - self._settings.window_ms:
            self._samples.popleft()
        if now_ms - running_since_ms < self._settings.stabilization_ms:
            return {}
        means = {key: self._mean(key) for key in sample}
        demand = _demand(sample, means)
        wanted = {key: self._wanted(now_ms, group, means[key], demand[key]) for key, group in sample.items()}
        return {key: number for key, number in wanted.items() if number != sample[key].parallelism}

    def _mean(self, key: str) -> _Mean:
        groups = (sample[key] for _, sample in self._samples if key in sample)
        seen = [group for group in groups if any(group.subtasks)]
        if not seen:
            # Nothing is known, so it might be busy all the time.
            return _Mean(0.0, 1.0, 0.0, None)
        count = len(seen)
        tasks = [[_task_mean(task) for task in group.subtasks if task] for group in seen]
        busy = sum(max((mean.busy for mean in means), default=0.0) for means in tasks) / count
        held = sum(max((mean.backpressured for mean in means), default=0.0) for means in tasks) / count
        loads = [[load.busy for task in group.subtasks for load in task] for group in seen]
        hottest = sum(max(each, default=0.0) for each in loads) / count
        return _Mean(busy, hottest, held, seen[-1].lag_ms)

    def _wanted(self, now_ms: int, group: GroupLoad, mean: _Mean, demand: float) -> int:
        settings, now = self._settings, group.parallelism
        if group.is_fixed or settings.excluded.intersection(group.uids):
            return now
        if mean.lag_ms is not None and mean.lag_ms > settings.lag_ms:
            demand *= 1 + mean.lag_ms / settings.catch_up_ms
        load = mean.busy * demand
        needed = math.ceil(now * load / settings.target - 1e-9)
        most = min(now + math.floor(now * settings.most_growth), settings.highest, group.highest)
        needed = max(settings.lowest, min(needed, max(most, now)))
        lately = self._most_needed(now_ms, group.key, needed)
        if load > settings.upper and needed > now:
            return needed
        is_idle = load < settings.lower and mean.hottest < FULLY_BUSY
        if lately < now and is_idle and settings.is_scale_down_enabled:
            return max(lately, math.ceil(now * (1 - settings.most_shrinkage)))
        return now

    def _most_needed(self, now_ms: int, key: str, needed: int) -> int:
        """What was needed a while ago may be needed again."""
        needs = self._needs.setdefault(key, deque())
        needs.append((now_ms, needed))
        while needs[0][0] < now_ms - self._settings.scale_down_ms:
            needs.popleft()
        return max(number for _, number in needs)


def _task_mean(task: Sequence[SubtaskLoad]) -> SubtaskLoad:
    count = len(task)
    return SubtaskLoad(
        sum(load.busy for load in task) / count, sum(load.backpressured for load in task) / count
    )


def _demand(groups: Mapping[str, GroupLoad], means: Mapping[str, _Mean]) -> dict[str, float]:
    """How many times as many records each group would get if nothing before it were held back.

    The groups come in topological order. Where two inputs meet, the one that grows more decides.
    """
    demand: dict[str, float] = {}
    for key, group in groups.items():
        held = min(means[key].backpressured, _MOST_BLOCKED)
        before = max((demand[each] for each in group.inputs if each in demand), default=1.0)
        demand[key] = max(before, 1 / (1 - held))
    return demand
