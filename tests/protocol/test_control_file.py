"""Control files: damage of any kind is an error that names the file, and never another content."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from tidegate.common.errors import CorruptCheckpointError
from tidegate.protocol.checkpoints.control_file import (
    ControlFile,
    decode_control_file,
    encode_control_file,
    old_json,
)

IDENTITY = {"job_id": "5b", "number": 2}
DOCUMENT = {"first_id": 257, "checkpoints": [1, 2]}
OLD = old_json("first_id", "checkpoints")
DATA = encode_control_file("accepted", IDENTITY, DOCUMENT, b"\x80\n{}")


def decode(data: bytes, kind: str = "accepted", **identity: Any) -> ControlFile:
    return decode_control_file(data, "/c/accepted/2", kind, {**IDENTITY, **identity}, "Restore it.", OLD)


def test_a_control_file_holds_what_was_stored() -> None:
    assert decode(DATA) == ControlFile(DOCUMENT, b"\x80\n{}")
    assert decode(encode_control_file("accepted", IDENTITY, [])) == ControlFile([], b"")


def test_the_same_content_is_the_same_bytes() -> None:
    assert encode_control_file("ids", {"a": 1, "b": 2}, {}) == encode_control_file(
        "ids", {"b": 2, "a": 1}, {}
    )


def test_every_flipped_bit_is_an_error_and_never_an_old_file() -> None:
    for position in range(len(DATA)):
        for bit in range(8):
            damaged = bytearray(DATA)
            damaged[position] ^= 1 << bit
            with pytest.raises(CorruptCheckpointError, match=r"/c/accepted/2.* Restore it\."):
                decode(bytes(damaged))


def test_a_part_of_a_file_is_an_error() -> None:
    for length in range(len(DATA)):
        for part in (DATA[:length], DATA[length + 1 :], DATA[:length] + DATA[length + 1 :]):
            with pytest.raises(CorruptCheckpointError, match="/c/accepted/2"):
                decode(part)


@pytest.mark.parametrize(
    "other", [{"kind": "completed"}, {"job_id": "5c"}, {"number": 3}, {"number": "2"}, {"name": "x"}]
)
def test_the_file_of_another_place_is_an_error_that_names_both(other: dict[str, Any]) -> None:
    with pytest.raises(
        CorruptCheckpointError, match="it is 'accepted' of job_id 5b, number 2, and"
    ) as raised:
        decode(DATA, **other)
    assert "wrong place" in str(raised.value)


def test_a_newer_format_is_named() -> None:
    with pytest.raises(CorruptCheckpointError, match="control file format 9; this release reads format 1"):
        decode(DATA.replace(b"control 1 ", b"control 9 ", 1))


def test_a_file_of_an_earlier_release_is_read_where_there_was_one() -> None:
    assert decode(b'{"first_id": 1, "checkpoints": []}').document == {"first_id": 1, "checkpoints": []}
    with pytest.raises(CorruptCheckpointError, match="not a control file"):
        decode_control_file(b'{"first_id": 1}', "x", "completed", IDENTITY, "")


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"7", b'{"first_id": 1}', b"\xff", b"[" * 100_000])
def test_what_is_not_exactly_an_old_file_is_an_error(data: bytes) -> None:
    with pytest.raises(CorruptCheckpointError, match="not a control file"):
        decode(data)


@pytest.mark.parametrize("body", [b"\xff", b"[]\n", b"{}\n", b"3\n", b"[" * 100_000])
def test_a_body_of_another_program_is_an_error(body: bytes) -> None:
    data = b"tidegate-control 1 %s\n" % hashlib.sha256(body).hexdigest().encode() + body
    with pytest.raises(CorruptCheckpointError, match="not a control file of Tidegate"):
        decode(data)
