"""Metrics of user functions: counters, gauges, meters and distributions."""

from __future__ import annotations

import logging
import math
from typing import Any

import numpy as np
import pytest
from tidegate.common import Configuration
from tidegate.datastream import MapFunction, RuntimeContext, StreamExecutionEnvironment
from tidegate.telemetry import Meter, MetricGroup, metric_values
from tidegate.telemetry.metrics import MetricRegistry


def test_every_kind_of_metric_says_what_was_seen() -> None:
    registry = MetricRegistry()
    group = MetricGroup(registry, ("Map", "0")).add_group("orders", "new")
    group.counter("seen").inc()
    group.counter("seen").inc(5)
    group.counter("seen").dec(2)
    for value in (7, -1, 3):
        group.distribution("sizes").update(value)
    group.gauge("answer", lambda: 42)
    group.gauge("broken", lambda: 1 // 0)
    values = registry.values()
    assert math.isnan(values.pop("Map.0.orders.new.broken"))  # type: ignore[arg-type]
    assert values == {
        "Map.0.orders.new.seen": 4,
        "Map.0.orders.new.sizes": {"count": 3, "sum": 9, "min": -1, "max": 7},
        "Map.0.orders.new.answer": 42,
    }


def test_the_rate_of_a_meter_is_that_of_its_time_span() -> None:
    now = [100.0]
    meter = Meter(10, lambda: now[0])
    for _ in range(20):
        now[0] += 1
        meter.mark_event(3)
    assert meter.get_count() == 60
    assert meter.get_rate() == pytest.approx(3.0)
    now[0] += 60
    assert (meter.get_count(), meter.get_rate()) == (60, 0.0)


class Counting(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.counter = runtime_context.get_metrics_group().counter("seen")

    def map(self, value: Any) -> Any:
        self.counter.inc()
        return metric_values()["Counting.0.seen"]


def test_a_function_makes_metrics_of_its_own_which_end_with_it() -> None:
    configuration = Configuration()
    configuration.set_string("execution.target", "local")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    stream = env.from_collection([1, 2, 3]).map(Counting()).name("Counting")
    assert list(stream.execute_and_collect()) == [1, 2, 3]
    assert "Counting.0.seen" not in metric_values()


def test_operators_of_one_name_have_metrics_of_their_own_in_one_job_and_in_two() -> None:
    registry = MetricRegistry()
    groups = [
        MetricGroup(registry, ("Map", "0"), owner)
        for owner in [("job-1", "a"), ("job-1", "b"), ("job-2", "a")]
    ]
    for number, group in enumerate(groups, start=1):
        group.counter("seen").inc(number)
    groups[0].add_group("orders").counter("new")
    assert registry.values() == {
        "job-1.a.Map.0.seen": 1,
        "job-1.b.Map.0.seen": 2,
        "job-2.a.Map.0.seen": 3,
        "Map.0.orders.new": 0,
    }
    groups[0].close()
    groups[1].close()
    assert registry.values() == {"Map.0.seen": 3}


def test_samples_hold_numbers_only_and_a_warning_names_the_metric_that_gives_none(
    caplog: pytest.LogCaptureFixture,
) -> None:
    group = MetricGroup(MetricRegistry(), ("Map", "0"), ("job-1", "uid-map"))
    group.counter("seen").inc(np.int64(3))  # type: ignore[arg-type]
    sizes = group.distribution("sizes")
    sizes.update(np.int64(7))  # type: ignore[arg-type]
    for name, value in {
        "text": "three",
        "nothing": None,
        "endless": math.inf,
        "of_numpy": np.float32(0.5),
    }.items():
        group.gauge(name, lambda value=value: value)  # type: ignore[misc]
    group.gauge("broken", lambda: 1 // 0)
    with caplog.at_level(logging.WARNING, "tidegate"):
        samples = [group.samples(), group.samples()][1]
    values = {".".join(name): value for name, _, value in samples}
    assert values == {"seen": 3, "sizes": {"count": 1, "sum": 7, "min": 7, "max": 7}, "of_numpy": 0.5}
    assert [type(values[name]) for name in ("seen", "of_numpy")] == [int, float]
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 4
    assert "broken of operator 'Map'" in told[3]
    assert "ZeroDivisionError" in told[3]
