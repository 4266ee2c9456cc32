"""Control files: the small files with which the coordinators of a job keep what they must not forget.

A header line carries the format version and the SHA-256 of everything after it. A line of JSON follows: the
kind of the file, whose it is, and its document. Bytes that are not JSON may follow that line. A reader says
which kind and which identity it expects, so that neither damage nor a file that was copied to another place
is taken for the right one.

    tidegate-control 1 3f0a…
    {"document": {…}, "identity": {"job_id": "…", "number": 2}, "kind": "accepted"}
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ...common.errors import CorruptCheckpointError

FORMAT_VERSION = 1
_MAGIC = b"tidegate-control"
_HEADER = re.compile(rb"tidegate-control ([0-9]{1,9}) ([0-9a-f]{64})\n")

Identity = Mapping[str, str | int]
"""Whose file it is: the id of the job, and the number or the name that its path holds."""


@dataclass(frozen=True, slots=True)
class ControlFile:
    """What a control file holds."""

    document: Any
    """Plain JSON data."""
    payload: bytes = b""


def encode_control_file(kind: str, identity: Identity, document: Any, payload: bytes = b"") -> bytes:
    """The content of a control file.

    Args:
        kind: What it is for, one word.
        identity: Whose it is.
        document: Plain JSON data.
        payload: Bytes to store with it.
    """
    described = {"kind": kind, "identity": dict(identity), "document": document}
    body = json.dumps(described, sort_keys=True).encode() + b"\n" + payload
    digest = hashlib.sha256(body).hexdigest().encode()
    return b"%s %d %s\n" % (_MAGIC, FORMAT_VERSION, digest) + body


def decode_control_file(
    data: bytes,
    path: str,
    kind: str,
    identity: Identity,
    remedy: str,
    old_format: Callable[[bytes], Any] | None = None,
) -> ControlFile:
    """Parse a control file that was read from `path`.

    Args:
        data: Its content.
        path: Names it in errors.
        kind: What it must be for.
        identity: Whose it must be.
        remedy: What a person is to do when it is damaged, a sentence.
        old_format: The document in a file without a header, as earlier releases wrote it. It must reject
            with `ValueError` what is not exactly that, so that no damaged file passes for an old one.

    Raises:
        CorruptCheckpointError: It is damaged, of a newer format, of another kind, or not the expected one's.
    """
    header = _HEADER.match(data)
    if header is None:
        return ControlFile(_old_document(data, path, old_format, remedy))
    if int(header[1]) != FORMAT_VERSION:
        raise CorruptCheckpointError(
            f"{path} has control file format {int(header[1])}; this release reads format {FORMAT_VERSION}. "
            f"Use the release that wrote it. If there is none, the file is damaged: {remedy}"
        )
    body = data[header.end() :]
    if hashlib.sha256(body).hexdigest().encode() != header[2]:
        raise CorruptCheckpointError(f"{path} is damaged: its checksum does not match. {remedy}")
    described, _, payload = body.partition(b"\n")
    return ControlFile(_document(described, path, kind, identity, remedy), payload)


def old_json(*fields: str) -> Callable[[bytes], Any]:
    """Reads control files of earlier releases: a bare JSON object with exactly these fields."""

    def read(data: bytes) -> Any:
        try:
            document = json.loads(data)
        except RecursionError as error:
            raise ValueError("it is nested too deeply") from error
        if not isinstance(document, dict) or set(document) != set(fields):
            raise ValueError(f"it is not an object with {', '.join(fields)}")
        return document

    return read


def _old_document(data: bytes, path: str, old_format: Callable[[bytes], Any] | None, remedy: str) -> Any:
    problem = "it is not a control file, or its start is damaged"
    if old_format is None:
        raise CorruptCheckpointError(f"{path} is damaged: {problem}. {remedy}")
    try:
        return old_format(data)
    except ValueError as error:
        raise CorruptCheckpointError(f"{path} is damaged: {problem}. {remedy}") from error


def _document(described: bytes, path: str, kind: str, identity: Identity, remedy: str) -> Any:
    """The checksum held: a program wrote this as it is, but perhaps for another file."""
    try:
        found = json.loads(described)
        actual = (found["kind"], found["identity"], found["document"])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise CorruptCheckpointError(f"{path} is not a control file of Tidegate. {remedy}") from error
    if actual[:2] != (kind, dict(identity)):
        raise CorruptCheckpointError(
            f"{path} is another file in the wrong place: it is {_named(actual[0], actual[1])}, and "
            f"{_named(kind, identity)} belongs there. {remedy}"
        )
    return actual[2]


def _named(kind: Any, identity: Any) -> str:
    if not isinstance(identity, Mapping):
        return f"{kind!r:.40}"
    return f"{kind!r:.40} of " + ", ".join(f"{name} {value!s:.80}" for name, value in identity.items())
