"""Metrics of user functions, in memory: PyFlink's `MetricGroup` over one registry per process.

    from tidegate.telemetry import metric_values

gives the value of each by its name: operator, index of the subtask, groups, metric. Where two operators have
one name, also in two jobs, the ids of job and operator stand before it. They are those of the running tasks
of this process; so of all in local mode, and elsewhere of those of one worker.
"""

from __future__ import annotations

import logging
import math
import numbers
import time
from collections import Counter as Counts
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ..protocol.task_metrics import MetricScope, UserMetric

MetricValue = UserMetric

logger = logging.getLogger(__name__)


class Metric:
    """What a user function counts or measures; base of `Counter`, `Meter` and `Distribution`."""


class Counter(Metric):
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


class Meter(Metric):
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


class Distribution(Metric):
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


Registered = Counter | Meter | Distribution | Callable[[], int | float]
_Root = tuple[tuple[str, ...], tuple[str, ...]]
"""The owner of some metrics, and what all their names begin with."""


@dataclass(slots=True)
class _Entry:
    metric: Registered
    scope: MetricScope
    has_failed: bool = False


class MetricRegistry:
    """The metrics of the tasks in one process, by their owners and names."""

    def __init__(self) -> None:
        # By the root that they are under, so that those of one operator are found without a look at others.
        self._roots: dict[_Root, dict[tuple[str, ...], _Entry]] = {}

    def register(
        self, root: _Root, name: tuple[str, ...], metric: Registered, scope: MetricScope
    ) -> Registered:
        """The metric of that name: the one there is, if it is of the same kind, else `metric`."""
        entries = self._roots.setdefault(root, {})
        known = entries.get(name)
        if known is not None and type(known.metric) is type(metric) and not callable(metric):
            return known.metric
        entries[name] = _Entry(metric, scope)
        return metric

    def forget(self, root: _Root, scope: tuple[str, ...]) -> None:
        """Drop all metrics under a root whose names begin so."""
        entries = self._roots.get(root, {})
        for name in [name for name in list(entries) if name[: len(scope)] == scope]:
            del entries[name]
        if not entries:
            self._roots.pop(root, None)

    def values(self) -> dict[str, MetricValue]:
        """What each metric says now, by its dotted name; NaN for a gauge that raises.

        Names that several owners use begin with the owner.
        """
        metrics = [
            (owner, (*prefix, *name), entry.metric)
            for (owner, prefix), entries in list(self._roots.items())
            for name, entry in list(entries.items())
        ]
        uses = Counts(name for _, name, _ in metrics)
        return {
            ".".join(name if uses[name] == 1 else (*owner, *name)): _value(metric)
            for owner, name, metric in metrics
        }

    def samples(
        self, root: _Root, with_gauges: bool
    ) -> list[tuple[tuple[str, ...], MetricScope, UserMetric]]:
        """Name below the root, scope and value of each metric under a root.

        A gauge that raises, or gives no finite number, is left out; the first time a warning says so.
        """
        found = []
        for name, entry in list(self._roots.get(root, {}).items()):
            if not with_gauges and callable(entry.metric):
                continue
            value = _sample(entry, name)
            if value is not None:
                found.append((name, entry.scope, value))
        return found


def _value(metric: Registered) -> MetricValue:
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


def _sample(entry: _Entry, name: tuple[str, ...]) -> UserMetric | None:
    metric = entry.metric
    try:
        if isinstance(metric, Counter | Meter | Distribution):
            value = _value(metric)
            if isinstance(value, Mapping):
                return {name: _finite(each) for name, each in value.items()}
            return _finite(value)
        return _finite(metric())
    except Exception as error:  # of whatever kind: it is user code, and must not fail what asks
        if not entry.has_failed:
            entry.has_failed = True
            logger.warning(
                "The metric %s of operator %r is left out of the metrics: it gave no finite number (%s: %s)",
                ".".join(name),
                entry.scope.operator_name,
                type(error).__name__,
                error,
            )
        return None


def _finite(value: object) -> int | float:
    """A number of Python's own: NumPy's would need NumPy to be read again."""
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real) and math.isfinite(value):
        return float(value)
    raise ValueError(f"{value!r:.100} is not a finite number")


class MetricGroup:
    """Where a function makes its metrics; asked twice for one name, it gives the same one.

    Args:
        registry: Where they are kept.
        scope: What their names begin with: the operator's name, and the index of the subtask.
        owner: Whose they are: the ids of the job and of its operator, two of which may have one name.
    """

    def __init__(self, registry: MetricRegistry, scope: tuple[str, ...], owner: tuple[str, ...] = ()) -> None:
        self._registry = registry
        self._root: _Root = (owner, scope)
        self._name: tuple[str, ...] = ()
        self._scope = MetricScope(scope[0] if scope else "", owner[-1] if owner else "", ())

    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        """A group within this one; with `extra`, a key and its value.

        As in Flink both are part of a metric's name; where a metric has labels the value is one, and only the
        key is in the name.
        """
        group = MetricGroup(self._registry, self._root[1], self._root[0])
        group._name = (*self._name, name, *(() if extra is None else (extra,)))
        labels = self._scope.labels if extra is None else {**self._scope.labels, name: extra}
        group._scope = replace(self._scope, path=(*self._scope.path, name), labels=labels)
        return group

    def counter(self, name: str) -> Counter:
        """A counter."""
        metric = self._register(name, Counter())
        assert isinstance(metric, Counter)
        return metric

    def gauge(self, name: str, obj: Callable[[], int | float]) -> None:
        """A value that `obj()` gives when somebody asks, from any thread."""
        self._register(name, obj)

    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        """A meter of the rate over a time span."""
        metric = self._register(name, Meter(time_span_in_seconds))
        assert isinstance(metric, Meter)
        return metric

    def distribution(self, name: str) -> Distribution:
        """A distribution."""
        metric = self._register(name, Distribution())
        assert isinstance(metric, Distribution)
        return metric

    def samples(self, with_gauges: bool = True) -> list[tuple[tuple[str, ...], MetricScope, UserMetric]]:
        """Name, scope and value of each metric of the operator; see `MetricRegistry.samples`."""
        return self._registry.samples(self._root, with_gauges)

    def close(self) -> None:
        """Drop its metrics and those of its groups."""
        self._registry.forget(self._root, self._name)

    def _register(self, name: str, metric: Registered) -> Registered:
        scope = replace(self._scope, path=(*self._scope.path, name))
        return self._registry.register(self._root, (*self._name, name), metric, scope)


PROCESS_METRICS = MetricRegistry()
"""Those of this process."""


def metric_values() -> dict[str, MetricValue]:
    """What the metrics of this process say now; see `MetricRegistry.values`."""
    return PROCESS_METRICS.values()
