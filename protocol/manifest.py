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

from ..common.errors import CorruptCheckpointError
from .elements import SnapshotKind
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
from .ids import CheckpointId
from .key_groups import KeyGroupRange

FORMAT_VERSION = 1
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
    """Serialise a manifest with its checksum."""
    body = json.dumps(_to_json(manifest), sort_keys=True).encode()
    digest = hashlib.sha256(body).hexdigest()
    return f"{_MAGIC} {FORMAT_VERSION} {digest}\n".encode() + body


def decode_manifest(data: bytes, path: str) -> CheckpointManifest:
    """Parse a manifest read from `path`.

    Raises:
        CorruptCheckpointError: It is not a manifest, of a newer format, or damaged.
    """
    header, _, body = data.partition(b"\n")
    words = header.split()
    if len(words) != 3 or words[0] != _MAGIC.encode():
        raise CorruptCheckpointError(f"{path} is not a checkpoint manifest, or its start is damaged")
    if words[1] != str(FORMAT_VERSION).encode():
        raise CorruptCheckpointError(
            f"{path} has manifest format {words[1].decode('ascii', 'replace')}; this release reads "
            f"format {FORMAT_VERSION}: restore it with the release that wrote it"
        )
    if hashlib.sha256(body).hexdigest().encode() != words[2]:
        raise CorruptCheckpointError(
            f"{path} is damaged: its checksum does not match. Restore another checkpoint"
        )
    return _from_json(json.loads(body))


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
                "parts": [
                    {**_file_to_json(part.file), "rows": [part.start, part.end]} for part in handle.parts
                ],
            }
            for handle in snapshot.lists
        ],
        **_channels_to_json(snapshot.channels),
    }


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


def _from_json(body: dict[str, Any]) -> CheckpointManifest:
    operators = {
        operator["uid"]: OperatorManifest(
            operator["uid"],
            operator["name"],
            operator["max_parallelism"],
            tuple(_snapshot_from_json(snapshot) for snapshot in operator["subtasks"]),
            base64.b64decode(operator["coordinator"]) if "coordinator" in operator else None,
        )
        for operator in body["operators"]
    }
    return CheckpointManifest(
        body["job_id"],
        body["job_name"],
        CheckpointId(body["checkpoint_id"]),
        SnapshotKind(body["kind"]),
        body["triggered_ms"],
        body["completed_ms"],
        operators,
        body.get("savepoint_path", ""),
        body.get("statistics"),
    )


def _snapshot_from_json(body: dict[str, Any]) -> OperatorSnapshot:
    segments = tuple(
        SegmentHandle(
            segment["state"],
            _file_from_json(segment),
            KeyGroupRange(*segment["key_groups"]),
            segment["entries"],
            segment["base"],
            segment["footer_sha256"],
        )
        for segment in body["segments"]
    )
    lists = tuple(
        OperatorListHandle(
            handle["state"],
            handle["mode"],
            handle["schema"],
            tuple(ListPart(_file_from_json(part), *part["rows"]) for part in handle["parts"]),
        )
        for handle in body["lists"]
    )
    channels = _channels_from_json(body["channels"]) if "channels" in body else None
    return OperatorSnapshot(KeyedStateHandle(segments, body["descriptors"]), lists, channels)


def _channels_from_json(body: dict[str, Any]) -> ChannelStateHandle:
    ranges = (ChannelRange(**channel) for channel in body["ranges"])
    return ChannelStateHandle(_file_from_json(body), tuple(ranges))


def _file_from_json(body: dict[str, Any]) -> FileHandle:
    data = body.get("data")
    content = None if data is None else base64.b64decode(data)
    return FileHandle(body["path"], body["size_bytes"], body["sha256"], content)
