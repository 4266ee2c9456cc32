"""Small programs on the local target that go wrong, and what is looked at afterwards."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tidegate.common import Configuration, Types
from tidegate.datastream import KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from tidegate.datastream.state import ValueStateDescriptor
from tidegate.protocol.checkpoints.manifest import CheckpointManifest
from tidegate.state.storage.stored_checkpoint import read_checkpoint

CHECKPOINTING = {
    "execution.checkpointing.interval": "20 ms",
    "execution.checkpointing.data-inline-threshold": "0",
    "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    "tidegate.checkpointing.retain-on-finish": "true",
}


def environment(directory: Path, **settings: str) -> StreamExecutionEnvironment:
    """A local environment with everything below `directory`; `__` in a setting's name is a dot."""
    configuration = Configuration()
    configuration.set_string("execution.target", "local")
    configuration.set_string("tidegate.local-dir", str(directory / "local"))
    configuration.set_string("execution.checkpointing.dir", str(directory / "checkpoints"))
    for name, value in settings.items():
        configuration.set_string(name, value)
    return StreamExecutionEnvironment.get_execution_environment(configuration)


class CountPerKey(KeyedProcessFunction):
    """Emits (key, how many of its records came so far); fails on a record named `poison`."""

    def __init__(self, poison: object = None) -> None:
        self._poison = poison

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        if self._poison is not None and value == self._poison:
            raise ValueError("boom")
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield ctx.get_current_key(), count


@contextmanager
def leaving_no_thread() -> Iterator[None]:
    """Every thread that is started inside ends inside."""
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
        assert not thread.is_alive(), f"{thread} is left"


def checkpoints_in(directory: Path) -> list[str]:
    """Addresses of the complete checkpoints below `directory`, oldest first."""
    manifests = (directory / "checkpoints").rglob("chk-*/MANIFEST")
    paths = sorted((path.parent for path in manifests), key=lambda path: int(path.name.removeprefix("chk-")))
    return [str(path) for path in paths]


def keyed_files(address: str) -> set[Path]:
    """The files of keyed state that a whole checkpoint refers to."""
    operators = assert_readable(address).operators.values()
    snapshots = (snapshot for operator in operators for snapshot in operator.subtasks)
    return {Path(segment.file.path) for snapshot in snapshots for segment in snapshot.keyed.segments}


def assert_readable(address: str) -> CheckpointManifest:
    """The manifest and every file it refers to are whole."""
    from tidegate.state.storage.checkpoint_storage import open_storage

    manifest = read_checkpoint(address)
    storage = open_storage(address)
    for handle in manifest.files():
        storage.read_file(handle)
    return manifest
