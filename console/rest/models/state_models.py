"""The documents of the REST API about the state of a job, beyond Flink's. Sizes are bytes."""

from __future__ import annotations

from .model_forms import Plain


class StateInfo(Plain):
    """One state in the last checkpoint."""

    name: str
    kind: str
    key_type: str | None
    map_key_type: str | None
    value_type: str | None
    ttl: str | None
    stored_rows: int
    size_bytes: int


class OperatorState(Plain):
    """The states of one operator."""

    uid: str
    name: str
    parallelism: int
    max_parallelism: int
    size_bytes: int
    states: list[StateInfo]


class JobState(Plain):
    """What is in the newest complete checkpoint."""

    checkpoint_id: int | None
    """`None` where there is none, or it is gone."""
    path: str | None
    kind: str | None
    triggered_ms: int | None
    completed_ms: int | None
    size_bytes: int
    operators: list[OperatorState]
    note: str
    """Why nothing is shown, else empty."""


class StateSample(Plain):
    """One entry as text; what is pickled is not opened, and long texts are cut."""

    key: str
    namespace: str | None
    map_key: str | None
    subtask: int | None
    value: str
    expiry: str | None


class StateEntries(Plain):
    """Some entries of one state."""

    checkpoint_id: int
    uid: str
    state: str
    offset: int
    limit: int
    is_last: bool
    """Whether there are none after these."""
    entries: list[StateSample]
