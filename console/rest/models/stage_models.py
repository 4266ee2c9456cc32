"""The documents of a stage's epochs (beyond Flink)."""

from __future__ import annotations

from .model_forms import Plain


class PhaseInfo(Plain):
    """All epochs of a stage that are in one phase."""

    epochs: int
    records: int
    size_bytes: int
    first: int
    """Number of the oldest; 0 where there is none."""


class EpochInfo(Plain):
    """One epoch whose results have not all been emitted."""

    number: int
    phase: str
    """One of `gathering`, `waiting`, `running`, `finished` and `emitting`."""
    records: int
    size_bytes: int


class _Epochs(Plain):
    name: str
    uid: str
    gathering: PhaseInfo
    """The epoch that takes the next records."""
    waiting: PhaseInfo
    """Epochs that take no more records and do not run yet."""
    running: PhaseInfo
    finished: PhaseInfo
    """Epochs whose results wait for those of an earlier epoch."""
    emitting: PhaseInfo
    """The epoch whose results are being emitted."""
    epochs: list[EpochInfo]
    """The oldest of all these, at most 20."""
    buffered_bytes: int
    """Of all records without results."""
    buffer_limit_bytes: int
    """With this number of bytes the stage takes no more records."""
    records_in: int
    records_out: int
    epochs_run: int | None
    """`null` in subtasks that run no epochs: one runs those of all."""
    last_run_ms: int | None
    """From the start of the last epoch's run to its results."""
    run_ms: int | None
    """The same of all epochs together."""


class WholeStageInfo(_Epochs):
    """The epochs of a stage, of all subtasks together; counts and times begin at 0 with every attempt."""

    subtasks: int
    """How many have reported."""


class StageInfo(_Epochs):
    """The same of one subtask: its shares of the epochs."""

    subtask: int
    host: str
    web_ui: str
    """Address of Spark's web UI; empty where there is none."""
    web_ui_is_on_loopback: bool
    """Whether only programs on `host` can open it."""
