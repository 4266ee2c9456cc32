"""Metrics of user functions, in memory: PyFlink's `MetricGroup` over one registry per process.

    from tidegate.telemetry import metric_values

gives the value of each by its name: operator, index of the subtask, groups, metric. Where two operators have
one name, also in two jobs, the ids of job and operator stand before it. They are those of the running tasks
of this process; so of all in local mode, and elsewhere of those of one worker.
"""

from __future__ import annotations

import math
import time
from collections import Counter as Counts
from collections import deque
from collections.abc import Callable, Mapping

MetricValue = int | float | Mapping[str, int | float]


class Counter:
    """Counts up and down."""

    def __init__(self) -> None:
        self._count = 0

    def inc(self, n: int = 1) -> None:
        """Count up."""
        self._count += n

    def dec(self, n: int = 1) -> None:
        """Count down."""
        self._count -= n

    def get_count(self) -> int:
        """The count."""
        return self._count


class Meter:
    """Counts events, and how many there were a second.

    Args:
        time_span_s: The rate is that of so many past seconds.
    """

    def __init__(self, time_span_s: int, now_s: Callable[[], float] = time.monotonic) -> None:
        self._time_span_s = time_span_s
        self._now_s = now_s
        self._started_s = now_s()
        self._count = 0
        # Seconds with events, and how many; so at most one entry for each second of the span.
        self._seconds: deque[list[int]] = deque()

    def mark_event(self, value: int = 1) -> None:
        """Some events happened."""
        second = int(self._now_s())
        self._count += value
        if self._seconds and self._seconds[-1][0] == second:
            self._seconds[-1][1] += value
        else:
            self._seconds.append([second, value])
            self._forget(second)

    def get_count(self) -> int:
        """All events."""
        return self._count

    def get_rate(self) -> float:
        """Events a second."""
        now_s = self._now_s()
        self._forget(int(now_s))
        lived_s = max(1.0, min(float(self._time_span_s), now_s - self._started_s))
        return sum(count for _, count in list(self._seconds)) / lived_s

    def _forget(self, second: int) -> None:
        while self._seconds and self._seconds[0][0] <= second - self._time_span_s:
            self._seconds.popleft()


class Distribution:
    """How values are spread: their number, sum, lowest and highest."""

    def __init__(self) -> None:
        self._values = {"count": 0, "sum": 0}

    def update(self, value: int) -> None:
        """A value was seen."""
        seen = self._values
        self._values = {
            "count": seen["count"] + 1,
            "sum": seen["sum"] + value,
            "min": min(seen.get("min", value), value),
            "max": max(seen.get("max", value), value),
        }

    def get_values(self) -> Mapping[str, int]:
        """`count` and `sum`, and after the first value `min` and `max`."""
        return self._values


Metric = Counter | Meter | Distribution | Callable[[], int | float]


class MetricRegistry:
    """The metrics of the tasks in one process, by their owners and names."""

    def __init__(self) -> None:
        self._metrics: dict[tuple[tuple[str, ...], tuple[str, ...]], Metric] = {}

    def register(self, owner: tuple[str, ...], name: tuple[str, ...], metric: Metric) -> Metric:
        """The metric of that name: the one there is, if it is of the same kind, else `metric`."""
        known = self._metrics.get((owner, name))
        if known is not None and type(known) is type(metric) and not callable(metric):
            return known
        self._metrics[owner, name] = metric
        return metric

    def forget(self, owner: tuple[str, ...], scope: tuple[str, ...]) -> None:
        """Drop all metrics of an owner whose names begin so."""
        for key in [key for key in list(self._metrics) if key[0] == owner and key[1][: len(scope)] == scope]:
            del self._metrics[key]

    def values(self) -> dict[str, MetricValue]:
        """What each metric says now, by its dotted name; NaN for a gauge that raises.

        Names that several owners use begin with the owner.
        """
        metrics = list(self._metrics.items())
        uses = Counts(name for (_, name), _ in metrics)
        return {
            ".".join(name if uses[name] == 1 else (*owner, *name)): _value(metric)
            for (owner, name), metric in metrics
        }


def _value(metric: Metric) -> MetricValue:
    if isinstance(metric, Counter):
        return metric.get_count()
    if isinstance(metric, Meter):
        return {"count": metric.get_count(), "rate": metric.get_rate()}
    if isinstance(metric, Distribution):
        return metric.get_values()
    try:
        return metric()
    except Exception:
        # User code, asked from another thread, perhaps in the middle of a change: the other metrics count.
        return math.nan


class MetricGroup:
    """Where a function makes its metrics; asked twice for one name, it gives the same one.

    Args:
        registry: Where they are kept.
        scope: What their names begin with.
        owner: Whose they are: the ids of the job and of its operator, two of which may have one name.
    """

    def __init__(self, registry: MetricRegistry, scope: tuple[str, ...], owner: tuple[str, ...] = ()) -> None:
        self._registry = registry
        self._scope = scope
        self._owner = owner

    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        """A group within this one; with `extra`, a key and its value."""
        scope = (*self._scope, name, *(() if extra is None else (extra,)))
        return MetricGroup(self._registry, scope, self._owner)

    def counter(self, name: str) -> Counter:
        """A counter."""
        metric = self._registry.register(self._owner, (*self._scope, name), Counter())
        assert isinstance(metric, Counter)
        return metric

    def gauge(self, name: str, obj: Callable[[], int | float]) -> None:
        """A value that `obj()` gives when somebody asks, from any thread."""
        self._registry.register(self._owner, (*self._scope, name), obj)

    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        """A meter of the rate over a time span."""
        metric = self._registry.register(self._owner, (*self._scope, name), Meter(time_span_in_seconds))
        assert isinstance(metric, Meter)
        return metric

    def distribution(self, name: str) -> Distribution:
        """A distribution."""
        metric = self._registry.register(self._owner, (*self._scope, name), Distribution())
        assert isinstance(metric, Distribution)
        return metric

    def close(self) -> None:
        """Drop its metrics and those of its groups."""
        self._registry.forget(self._owner, self._scope)


PROCESS_METRICS = MetricRegistry()
"""Those of this process."""


def metric_values() -> dict[str, MetricValue]:
    """What the metrics of this process say now; see `MetricRegistry.values`."""
    return PROCESS_METRICS.values()
