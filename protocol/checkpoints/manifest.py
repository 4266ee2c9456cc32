"""The manifest: the one file whose presence means that a checkpoint exists.

It is JSON for people and tools: a header line with the format version and the SHA-256 of the body,
then the body. It names every file with length and checksum, and carries small files itself (`data`, in
Base64). It is written last, and only if absent.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...common.errors import CheckpointStorageError, CorruptCheckpointError
from ..elements import SnapshotKind
from ..ids import CheckpointId
from ..key_groups import UPPER_BOUND_MAX_PARALLELISM, KeyGroupRange
from .handles import (
    ChannelRange,
    ChannelStateHandle,
    FileHandle,
    KeyedStateHandle,
    ListPart,
    OperatorListHandle,
    OperatorSnapshot,
    SegmentHandle,
)
from .json_fields import Fields, parse_document
from .redistribution import BROADCAST, EVEN_SPLIT, UNION
from .stored_path import state_file_problem

FORMAT_VERSION = 2
_WITHOUT_CHANGES = 1
"""Of manifests without parts of operator state that are changes, so that older releases read those too."""
MAX_MANIFEST_BYTES = 512 << 20
"""A reader takes no more, so no more is written."""
_MAGIC = "tidegate-checkpoint"


@dataclass(frozen=True, slots=True)
class OperatorManifest:
    """One operator's state: its snapshots in subtask order."""

    uid: str
    name: str
    max_parallelism: int
    subtasks: tuple[OperatorSnapshot, ...]
    coordinator: bytes | None = field(default=None, repr=False)
    """State of the operator's half in the coordinator, pickled; `None` if it has none."""

    @property
    def has_state(self) -> bool:
        """Whether any subtask, or the half in the coordinator, stored anything."""
        return self.coordinator is not None or any(
            snapshot.keyed.segments
            or any(handle.item_count for handle in snapshot.lists)
            or snapshot.channels is not None
            for snapshot in self.subtasks
        )


@dataclass(frozen=True, slots=True)
class CheckpointManifest:
    """Everything needed to restore a job from one completed checkpoint."""

    job_id: str
    job_name: str
    checkpoint_id: CheckpointId
    kind: SnapshotKind
    triggered_ms: int
    completed_ms: int
    operators: dict[str, OperatorManifest] = field(default_factory=dict)
    savepoint_path: str = ""
    """The savepoint that the job was stopped with at this checkpoint."""
    statistics: Mapping[str, Any] | None = None
    """The job's history of checkpoints, for the coordinator that goes on from here; nothing to restore."""

    @property
    def size_bytes(self) -> int:
        """Bytes of state this checkpoint refers to, a shared file counted once."""
        return sum({handle.path: handle.size_bytes for handle in self.files()}.values())

    def files(self) -> list[FileHandle]:
        """Every file this checkpoint refers to, inline ones included; a shared one may come repeatedly."""
        return [
            handle
            for operator in self.operators.values()
            for snapshot in operator.subtasks
            for handle in snapshot.files()
        ]


def encode_manifest(manifest: CheckpointManifest) -> bytes:
    """Serialise a manifest with its checksum.

    Raises:
        CheckpointStorageError: It names a file that no manifest may name, such as one of another job.
    """
    for file in manifest.files():
        problem = state_file_problem(file.path, manifest.kind is SnapshotKind.SAVEPOINT)
        if problem is not None:
            raise CheckpointStorageError(
                f"{manifest.kind.value} {manifest.checkpoint_id} cannot be stored: it names the file "
                f"{file.path[:200]!r}, and {problem}"
            )
    body = json.dumps(_to_json(manifest), sort_keys=True).encode()
    if len(body) > MAX_MANIFEST_BYTES - 128:
        raise CheckpointStorageError(
            f"{manifest.kind.value} {manifest.checkpoint_id} cannot be stored: its manifest has {len(body)} "
            f"bytes, and may have {MAX_MANIFEST_BYTES}. Let it hold fewer small files: lower "
            f"execution.checkpointing.data-inline-threshold"
        )
    digest = hashlib.sha256(body).hexdigest()
    return f"{_MAGIC} {_version_of(manifest)} {digest}\n".encode() + body


def decode_manifest(data: bytes, path: str) -> CheckpointManifest:
    """Parse a manifest read from `path`.

    A valid checksum does not make it trustworthy: every field is checked for type and bounds, and no file
    that it names is outside the directory of the savepoint, or the `shared` directory of the job.

    Raises:
        CorruptCheckpointError: It is not a manifest, of a newer format, or damaged. The message names the
            field that is wrong.
    """
    header, _, body = data.partition(b"\n")
    words = header.split()
    if len(words) != 3 or words[0] != _MAGIC.encode():
        raise CorruptCheckpointError(f"{path} is not a checkpoint manifest, or its start is damaged")
    if words[1] not in (str(version).encode() for version in (_WITHOUT_CHANGES, FORMAT_VERSION)):
        raise CorruptCheckpointError(
            f"{path} has manifest format {_shown_version(words[1])}; this release reads "
            f"formats {_WITHOUT_CHANGES} to {FORMAT_VERSION}: restore it with the release that wrote it"
        )
    if hashlib.sha256(body).hexdigest().encode() != words[2]:
        raise CorruptCheckpointError(
            f"{path} is damaged: its checksum does not match. Restore another checkpoint"
        )
    return _from_json(parse_document(body, path))


def _version_of(manifest: CheckpointManifest) -> int:
    snapshots = (snapshot for operator in manifest.operators.values() for snapshot in operator.subtasks)
    parts = (part for snapshot in snapshots for handle in snapshot.lists for part in handle.parts)
    return FORMAT_VERSION if any(part.is_changes for part in parts) else _WITHOUT_CHANGES


def _shown_version(word: bytes) -> str:
    """Printable, whatever it holds."""
    return ascii(word[:20].decode("ascii", "backslashreplace"))[1:-1]


def _to_json(manifest: CheckpointManifest) -> dict[str, Any]:
    statistics = {} if manifest.statistics is None else {"statistics": manifest.statistics}
    return {
        **statistics,
        "job_id": manifest.job_id,
        "job_name": manifest.job_name,
        "checkpoint_id": manifest.checkpoint_id,
        "kind": manifest.kind.value,
        "triggered_ms": manifest.triggered_ms,
        "completed_ms": manifest.completed_ms,
        **({"savepoint_path": manifest.savepoint_path} if manifest.savepoint_path else {}),
        "operators": [
            {
                "uid": operator.uid,
                "name": operator.name,
                "max_parallelism": operator.max_parallelism,
                "subtasks": [_snapshot_to_json(snapshot) for snapshot in operator.subtasks],
                **_coordinator_to_json(operator.coordinator),
            }
            for operator in manifest.operators.values()
        ],
    }


def _coordinator_to_json(state: bytes | None) -> dict[str, Any]:
    return {} if state is None else {"coordinator": base64.b64encode(state).decode("ascii")}


def _snapshot_to_json(snapshot: OperatorSnapshot) -> dict[str, Any]:
    return {
        "descriptors": snapshot.keyed.descriptors,
        "segments": [
            {
                "state": segment.state_name,
                **_file_to_json(segment.file),
                "key_groups": [segment.key_groups.start, segment.key_groups.end],
                "entries": segment.entry_count,
                "base": segment.is_base,
                "footer_sha256": segment.footer_sha256,
            }
            for segment in snapshot.keyed.segments
        ],
        "lists": [
            {
                "state": handle.state_name,
                "mode": handle.mode,
                "schema": handle.schema,
                "parts": [_part_to_json(part) for part in handle.parts],
            }
            for handle in snapshot.lists
        ],
        **_channels_to_json(snapshot.channels),
    }


def _part_to_json(part: ListPart) -> dict[str, Any]:
    changes = {"changes": True} if part.is_changes else {}
    return {**_file_to_json(part.file), "rows": [part.start, part.end], **changes}


def _channels_to_json(handle: ChannelStateHandle | None) -> dict[str, Any]:
    """Nothing at all without records under way: most snapshots have none."""
    if handle is None:
        return {}
    ranges = [
        {
            "upstream_uid": channel.upstream_uid,
            "ordinal": channel.ordinal,
            "upstream_index": channel.upstream_index,
            "upstream_parallelism": channel.upstream_parallelism,
            "partitioning": channel.partitioning,
            "offset": channel.offset,
            "size_bytes": channel.size_bytes,
        }
        for channel in handle.channels
    ]
    return {"channels": {**_file_to_json(handle.file), "ranges": ranges}}


def _file_to_json(file: FileHandle) -> dict[str, Any]:
    content = {} if file.data is None else {"data": base64.b64encode(file.data).decode("ascii")}
    return {"path": file.path, "size_bytes": file.size_bytes, "sha256": file.sha256, **content}


def _from_json(body: Fields) -> CheckpointManifest:
    kind = SnapshotKind(body.one_of("kind", [kind.value for kind in SnapshotKind]))
    is_savepoint = kind is SnapshotKind.SAVEPOINT
    operators: dict[str, OperatorManifest] = {}
    for fields in body.children("operators"):
        operator = _operator_from_json(fields, is_savepoint)
        if operator.uid in operators:
            fields.fail("uid", f"is that of another operator too: {operator.uid[:80]!a}")
        operators[operator.uid] = operator
    return CheckpointManifest(
        body.text("job_id"),
        body.text("job_name"),
        CheckpointId(body.integer("checkpoint_id")),
        kind,
        body.time_ms("triggered_ms"),
        body.time_ms("completed_ms"),
        operators,
        body.text("savepoint_path", ""),
        body.plain("statistics") if body.has("statistics") else None,
    )


def _operator_from_json(body: Fields, is_savepoint: bool) -> OperatorManifest:
    return OperatorManifest(
        body.text("uid"),
        body.text("name"),
        body.integer("max_parallelism", 1, UPPER_BOUND_MAX_PARALLELISM),
        tuple(_snapshot_from_json(snapshot, is_savepoint) for snapshot in body.children("subtasks")),
        body.data("coordinator"),
    )


def _snapshot_from_json(body: Fields, is_savepoint: bool) -> OperatorSnapshot:
    segments = tuple(
        SegmentHandle(
            segment.text("state"),
            _file_from_json(segment, is_savepoint),
            _key_groups_from_json(segment),
            segment.integer("entries"),
            segment.flag("base"),
            segment.sha256("footer_sha256", may_be_empty=True),
        )
        for segment in body.children("segments")
    )
    lists = tuple(
        OperatorListHandle(
            handle.text("state"),
            handle.one_of("mode", (EVEN_SPLIT, UNION, BROADCAST)),
            handle.schema("schema"),
            tuple(_part_from_json(part, handle, is_savepoint) for part in handle.children("parts")),
        )
        for handle in body.children("lists")
    )
    channels = _channels_from_json(body.child("channels"), is_savepoint) if body.has("channels") else None
    return OperatorSnapshot(KeyedStateHandle(segments, body.schemas("descriptors")), lists, channels)


def _part_from_json(part: Fields, handle: Fields, is_savepoint: bool) -> ListPart:
    is_changes = part.has("changes") and part.flag("changes")
    if is_changes and handle.text("mode") != BROADCAST:
        part.fail("changes", "is true in a state that is not broadcast state")
    return ListPart(_file_from_json(part, is_savepoint), *_range_from_json(part, "rows"), is_changes)


def _key_groups_from_json(body: Fields) -> KeyGroupRange:
    start, end = body.pair("key_groups", -1, UPPER_BOUND_MAX_PARALLELISM - 1)
    if start < 0:
        body.fail("key_groups", f"begins at {start}, not at 0 or above")
    return KeyGroupRange(start, end)


def _range_from_json(body: Fields, name: str) -> tuple[int, int]:
    start, end = body.pair(name)
    if start > end:
        body.fail(name, f"ends at {end}, before its start {start}")
    return start, end


def _channels_from_json(body: Fields, is_savepoint: bool) -> ChannelStateHandle:
    file = _file_from_json(body, is_savepoint)
    ranges = tuple(
        ChannelRange(
            channel.text("upstream_uid"),
            channel.integer("ordinal"),
            channel.integer("upstream_index"),
            channel.integer("upstream_parallelism", 1),
            channel.text("partitioning"),
            channel.integer("offset"),
            channel.integer("size_bytes"),
        )
        for channel in body.children("ranges")
    )
    return ChannelStateHandle(file, ranges)


def _file_from_json(body: Fields, is_savepoint: bool) -> FileHandle:
    path = body.text("path")
    problem = state_file_problem(path, is_savepoint)
    if problem is not None:
        body.fail("path", f"is {path[:200]!a}: {problem}")
    return FileHandle(path, body.integer("size_bytes"), body.sha256("sha256"), body.data("data"))
