"""Where the files of operator state are: names, writes, reads, and what a restored handle holds."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from urllib.parse import quote

import pyarrow as pa

from ...common.errors import StateError
from ...protocol.checkpoints.handles import FileHandle, ListPart, OperatorListHandle
from ...protocol.key_groups import KeyGroupRange
from ..claims import without_mark
from ..keyed.conversion import StateConversion
from ..snapshots.segments import read_segment
from ..storage.checkpoint_storage import CheckpointStorage, read_restored
from .list_files import EncodedItems, read_list_file, write_list_file

# The entries of a broadcast state belong to no key. In segments all of them have this key and key group.
BROADCAST_KEY = 0
BROADCAST_GROUPS = KeyGroupRange(0, 0)


@dataclass(frozen=True)
class OperatorStateBackendParameters:
    """What an operator state backend must know about its place in the job.

    Attributes:
        storage: where list files go; None when checkpointing is off.
        file_prefix: directory of this operator's files in `storage`.
        local_dir: directory of this subtask for local files; created when needed.
    """

    operator_uid: str
    operator_name: str
    subtask_index: int
    attempt: int = 0
    storage: CheckpointStorage | None = None
    file_prefix: str = ""
    local_dir: str = ""

    @property
    def where(self) -> str:
        """The operator and the subtask, for messages."""
        return f"operator {self.operator_name!r}, subtask {self.subtask_index}"


class ListStorage:
    """Names, writes and reads the list files of one operator in one subtask."""

    def __init__(self, params: OperatorStateBackendParameters) -> None:
        self.params = params
        self._numbers = itertools.count()
        self._copies: dict[str, FileHandle] = {}
        self.are_foreign = False
        """Whether restored files belong to another job."""

    def write(self, items: EncodedItems, state_name: str, schema: dict[str, object]) -> ListPart:
        """Write items as a new file."""
        data = write_list_file(items, self.params.operator_uid, state_name, without_mark(schema))
        return ListPart(self._stored(state_name, data), 0, len(items.values))

    def read(self, file: FileHandle) -> bytes:
        """Content of a file."""
        return read_restored(self.params.storage, file)

    def holds(self, handle: OperatorListHandle) -> bool:
        """Whether a restored state has any items."""
        if not any(part.is_changes for part in handle.parts):
            return handle.item_count > 0
        return len(live_entries([table for table, _ in self.changes(handle)])) > 0

    def changes(self, handle: OperatorListHandle) -> Iterator[tuple[pa.Table, dict[str, str]]]:
        """The changes of a broadcast state, and the schema that each file says."""
        for part in handle.parts:
            yield read_changes(self.read(part.file), part)

    def owned(self, handle: OperatorListHandle) -> OperatorListHandle:
        """A restored handle on files of this job: those of another job are copied first."""
        if not self.are_foreign:
            return handle
        parts = tuple(replace(part, file=self._copy(handle.state_name, part.file)) for part in handle.parts)
        return replace(handle, parts=parts)

    def _copy(self, state_name: str, file: FileHandle) -> FileHandle:
        if file.path not in self._copies:
            self._copies[file.path] = self._stored(state_name, self.read(file))
        return self._copies[file.path]

    def _stored(self, state_name: str, data: bytes | memoryview) -> FileHandle:
        params = self.params
        path = (
            f"{params.file_prefix}/operator/{quote(state_name, safe='')}-{params.subtask_index}"
            f"-{params.attempt}-{next(self._numbers)}.parquet"
        ).lstrip("/")
        return self._storage().write_file(path, data)

    def _storage(self) -> CheckpointStorage:
        storage = self.params.storage
        if storage is None:
            raise StateError(
                f"{self.params.where}: operator state cannot be stored without a checkpoint storage; "
                f"set one in CheckpointConfig"
            )
        return storage


class RestoredItems:
    """What is stored for one operator state, as its program declares it now.

    Args:
        files: of the operator in this subtask.
        conversion: to the declared type.
    """

    def __init__(self, files: ListStorage, handle: OperatorListHandle, conversion: StateConversion) -> None:
        self.handle = handle
        self._files = files
        self._conversion = conversion

    @property
    def are_changes(self) -> bool:
        """Whether the parts are changes, each to those before it."""
        return any(part.is_changes for part in self.handle.parts)

    @property
    def are_owned(self) -> bool:
        """Whether the files belong to this job."""
        return not self._files.are_foreign

    def tables(self) -> Iterator[tuple[ListPart | None, pa.Table]]:
        """The items, with the columns of list files, and where snapshots may go on referring to.

        The part is None where they may not: it belongs to another job, or its values are of another type.
        """
        if self.are_changes:
            yield None, self._entries()
            return
        for part in self.handle.parts:
            table, schema = read_list_file(self._files.read(part.file), part.file.path)
            rows = table.slice(part.start, part.end - part.start)
            converted = self._conversion.converted(rows, schema)
            is_same = converted is rows and self.are_owned
            yield part if is_same else None, converted

    def _entries(self) -> pa.Table:
        changes = self._files.changes(self.handle)
        return live_entries([self._conversion.converted(table, schema) for table, schema in changes])


def read_changes(data: bytes, part: ListPart) -> tuple[pa.Table, dict[str, str]]:
    """A file of changes of a broadcast state, and the schema that it says."""
    table, info = read_segment(data, part.file.path, BROADCAST_GROUPS)
    return table, info.schema


def live_entries(tables: list[pa.Table]) -> pa.Table:
    """The entries of a broadcast state with the columns of list files, from its changes in their order."""
    from ..keyed.change_merge import merge_tables

    return merge_tables(tables, keep_tombstones=False).select(["map_key", "value", "value_encoded"])
