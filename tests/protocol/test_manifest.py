"""The manifest: what goes in comes out, and damage of any kind is an error."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest
from tidegate.common.errors import CorruptCheckpointError
from tidegate.protocol.checkpoints.handles import (
    ChannelRange,
    ChannelStateHandle,
    FileHandle,
    KeyedStateHandle,
    ListPart,
    OperatorListHandle,
    OperatorSnapshot,
    SegmentHandle,
)
from tidegate.protocol.checkpoints.manifest import (
    CheckpointManifest,
    OperatorManifest,
    decode_manifest,
    encode_manifest,
)
from tidegate.protocol.elements import SnapshotKind
from tidegate.protocol.ids import CheckpointId
from tidegate.protocol.key_groups import KeyGroupRange

PATH = "memory://jobs/abc/chk-7/MANIFEST"


def manifest() -> CheckpointManifest:
    shared = FileHandle("shared/op-totals/1.parquet", 1_000, "ab" * 32)
    segments = (
        SegmentHandle("total", shared, KeyGroupRange(0, 63), 12, is_base=True),
        SegmentHandle(
            "total", FileHandle("shared/op-totals/2.parquet", 50, "cd" * 32), KeyGroupRange(3, 9), 1
        ),
    )
    descriptors: dict[str, dict[str, object]] = {"total": {"kind": "value", "type": "LONG", "ttl": False}}
    totals = OperatorManifest(
        "totals-ü",
        "Total delays → carriers",
        128,
        (
            OperatorSnapshot(KeyedStateHandle(segments, descriptors)),
            OperatorSnapshot(KeyedStateHandle((segments[0],), descriptors)),
        ),
    )
    inline = FileHandle("shared/numbers/operator/1.parquet", 3, "ef" * 32, b"\x00\xff ")
    stored = FileHandle("shared/numbers/operator/2.parquet", 70, "01" * 32)
    schema: dict[str, object] = {"kind": "list", "value_type": "LONG"}
    splits = OperatorListHandle(
        "_source_splits", "even-split", schema, (ListPart(inline, 0, 2), ListPart(stored, 3, 9))
    )
    source = OperatorManifest("numbers", "Source", 1, (OperatorSnapshot(lists=(splits,)),))
    operators = {operator.uid: operator for operator in (source, totals)}
    return CheckpointManifest(
        "abc", "flights", CheckpointId(7), SnapshotKind.FINAL, 1_700_000_000_000, 1_700_000_000_250, operators
    )


def test_a_manifest_survives_the_round_trip() -> None:
    decoded = decode_manifest(encode_manifest(manifest()), PATH)
    assert decoded == manifest()
    assert list(decoded.operators) == ["numbers", "totals-ü"]


def test_records_under_way_survive_the_round_trip_and_count_as_state() -> None:
    file = FileHandle("shared/totals/channels/0-1-7", 90, "23" * 32)
    ranges = (ChannelRange("numbers", 0, 1, 2, "hash", 0, 40), ChannelRange("rules", 1, 0, 1, "hash", 40, 50))
    snapshot = OperatorSnapshot(channels=ChannelStateHandle(file, ranges))
    totals = OperatorManifest("totals", "Totals", 128, (snapshot,))
    whole = replace(manifest(), operators={"totals": totals})
    again = decode_manifest(encode_manifest(whole), PATH)
    assert again == whole
    assert again.files() == [file]
    assert again.operators["totals"].has_state
    moved = snapshot.with_files(lambda file: replace(file, path="elsewhere"))
    assert moved.channels == ChannelStateHandle(replace(file, path="elsewhere"), ranges)


def test_a_manifest_without_operators_survives_too() -> None:
    empty = CheckpointManifest("a", "b", CheckpointId(1), SnapshotKind.CHECKPOINT, 0, 1)
    assert decode_manifest(encode_manifest(empty), PATH) == empty


def test_a_shared_file_counts_once() -> None:
    assert manifest().size_bytes == 1_000 + 50 + 3 + 70
    assert len(manifest().files()) == 5


def test_only_operators_with_contents_have_state() -> None:
    assert all(operator.has_state for operator in manifest().operators.values())
    empty_list = OperatorListHandle("pending", "even-split")
    assert not OperatorManifest("a", "a", 1, (OperatorSnapshot(lists=(empty_list,)),)).has_state


def test_every_flipped_bit_is_noticed() -> None:
    data = encode_manifest(manifest())
    for position in range(len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[position] ^= 1 << bit
            with pytest.raises(CorruptCheckpointError, match=PATH):
                decode_manifest(bytes(damaged), PATH)


def test_every_truncation_is_noticed() -> None:
    data = encode_manifest(manifest())
    for length in range(len(data)):
        with pytest.raises(CorruptCheckpointError):
            decode_manifest(data[:length], PATH)


def test_appended_bytes_are_noticed() -> None:
    with pytest.raises(CorruptCheckpointError, match="checksum"):
        decode_manifest(encode_manifest(manifest()) + b" ", PATH)


def test_a_newer_format_says_which_release_reads_it() -> None:
    body = b"{}"
    newer = f"tidegate-checkpoint 3 {hashlib.sha256(body).hexdigest()}\n".encode() + body
    with pytest.raises(CorruptCheckpointError, match=r"manifest format 3; this release reads formats 1 to 2"):
        decode_manifest(newer, PATH)


def with_parts_of(mode: str, is_changes: bool) -> CheckpointManifest:
    file = FileHandle("shared/rules/broadcast/0.parquet", 10, "0" * 64)
    handle = OperatorListHandle("rules", mode, {}, (ListPart(file, 0, 3, is_changes),))
    operator = OperatorManifest("rules", "Rules", 128, (OperatorSnapshot(lists=(handle,)),))
    return CheckpointManifest(
        "job", "job", CheckpointId(1), SnapshotKind.CHECKPOINT, 0, 0, {"rules": operator}
    )


@pytest.mark.parametrize(("is_changes", "version"), [(False, b"1"), (True, b"2")])
def test_parts_that_are_changes_make_the_format_a_newer_one(is_changes: bool, version: bytes) -> None:
    stored = with_parts_of("broadcast", is_changes)
    data = encode_manifest(stored)
    assert data.split()[1] == version
    assert decode_manifest(data, PATH) == stored


def test_only_broadcast_state_is_stored_as_changes() -> None:
    with pytest.raises(CorruptCheckpointError, match=r"changes.*not broadcast state"):
        decode_manifest(encode_manifest(with_parts_of("union", True)), PATH)


def test_another_file_is_no_manifest() -> None:
    with pytest.raises(CorruptCheckpointError, match="not a checkpoint manifest"):
        decode_manifest(b"PAR1\x00\x01", PATH)


def test_the_coordinators_half_of_an_operator_is_kept() -> None:
    operator = OperatorManifest("files", "Files", 128, (OperatorSnapshot(),), b"\x80\x05state")
    stored = CheckpointManifest(
        "job", "job", CheckpointId(1), SnapshotKind.CHECKPOINT, 0, 0, {"files": operator}
    )
    read = decode_manifest(encode_manifest(stored), "MANIFEST")
    assert read == stored
    assert read.operators["files"].has_state
    assert b'"coordinator"' not in encode_manifest(
        CheckpointManifest("job", "job", CheckpointId(1), SnapshotKind.CHECKPOINT, 0, 0)
    )
