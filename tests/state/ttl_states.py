"""States with a time to live, for tests."""

from __future__ import annotations

from typing import Any

from tidegate.common.time import Time
from tidegate.common.typeinfo import Types
from tidegate.state.descriptors import (
    ValueStateDescriptor,
)
from tidegate.state.ttl_config import StateTtlConfig

TTL_MS = 1000


def builder(ttl_ms: int = TTL_MS) -> StateTtlConfig.Builder:
    return StateTtlConfig.new_builder(Time.milliseconds(ttl_ms)).disable_cleanup_in_background()


def with_ttl(descriptor: Any, config: StateTtlConfig.Builder | None = None) -> Any:
    descriptor.enable_time_to_live((config or builder()).build())
    return descriptor


def value_of(config: StateTtlConfig.Builder | None = None) -> Any:
    return with_ttl(ValueStateDescriptor("value", Types.LONG()), config)


def persist(backend: Any) -> Any:
    """Spill everything; with tiny limits, everything is read back from LMDB from now on."""
    handle = backend.freeze().persist()
    if backend.needs_spill:
        # LMDB gets what a checkpoint stored afterwards; a spill waits for that.
        backend.spill().persist()
    assert not backend.needs_spill
    return handle
