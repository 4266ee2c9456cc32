"""What a time to live may be, and what of it a restore may change."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tidegate.common.errors import ConfigurationError, StateMigrationError
from tidegate.common.time import Duration, Time
from tidegate.common.typeinfo import Types
from tidegate.state.descriptors import (
    StateDescriptor,
    ValueStateDescriptor,
)
from tidegate.state.ttl_config import StateTtlConfig

from .ttl_states import builder, persist, value_of, with_ttl


@pytest.mark.parametrize("ttl", [Time.seconds(2), Duration.of_seconds(2), timedelta(seconds=2)])
def test_lengths_may_be_given_in_several_ways(ttl: Any) -> None:
    assert StateTtlConfig.new_builder(ttl).build().get_ttl() == Time.seconds(2)


@pytest.mark.parametrize("ttl", [Time.milliseconds(0), Time.seconds(-1), Duration.of_nanos(5)])
def test_a_life_of_no_length_is_refused_by_the_name_of_the_state(ttl: Any) -> None:
    config = StateTtlConfig.new_builder(ttl).build()
    with pytest.raises(ConfigurationError, match=r"'total'.*at least one millisecond"):
        ValueStateDescriptor("total").enable_time_to_live(config)


def test_what_is_no_length_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"Time, a Duration or a timedelta, got 5"):
        StateTtlConfig.new_builder(5).build()  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"cleanup_size must be at least 1"):
        builder().cleanup_incrementally(0, False)


def test_disabled_means_no_time_to_live() -> None:
    descriptor = ValueStateDescriptor("total", Types.LONG())
    descriptor.enable_time_to_live(builder(0).set_update_type(StateTtlConfig.UpdateType.Disabled).build())
    assert descriptor.schema() == ValueStateDescriptor("total", Types.LONG()).schema()


@pytest.mark.parametrize(
    ("before", "now", "message"),
    [
        (None, "processing", r"without a time to live.*with a time to live in processing-time"),
        ("processing", None, r"with a time to live in processing-time.*without a time to live"),
        ("processing", "event", r"in processing-time.*in event-time"),
    ],
)
def test_a_restore_can_neither_enable_nor_disable_it_nor_change_the_clock(
    open_backend: Any, before: str | None, now: str | None, message: str
) -> None:
    def descriptor(clock: str | None) -> StateDescriptor:
        plain = ValueStateDescriptor("value", Types.LONG())
        if clock is None:
            return plain
        return with_ttl(plain, builder().use_event_time() if clock == "event" else builder())

    backend = open_backend()
    backend.get_value_state(descriptor(before))
    restored = open_backend(attempt=1)
    restored.restore(persist(backend), owned=True)
    with pytest.raises(StateMigrationError, match=r"running total.*'value'.*stored.*" + message):
        restored.get_value_state(descriptor(now))


def test_everything_else_may_change_on_a_restore(open_backend: Any) -> None:
    backend = open_backend()
    value = backend.get_value_state(value_of())
    backend.current_key = 1
    value.update(1)
    handle = persist(backend)
    changed = builder(7).update_ttl_on_read_and_write().return_expired_if_not_cleaned_up()
    restored = open_backend(attempt=1)
    restored.restore(handle, owned=True)
    restored.current_key = 1
    assert restored.get_value_state(value_of(changed.cleanup_full_snapshot())).value() == 1
