"""Entries with a time to live: how their expiry is stored, and whether they are expired.

An entry of a state with TTL is a pair `(expiry_ms, value)`, or a list of such pairs in a list state.
Segments hold the two in the columns `expiry` and `value`. In LMDB every stored value of such a state
starts with 8 bytes: the expiry, little endian, of a list the latest one. An expiry of 0 means never.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

NEVER = 0
# The end of the year 9999: what Python's datetime, and so every reader of a segment, can still show.
LAST_EXPIRY_MS = 253_402_300_799_999

_EXPIRY = struct.Struct("<q")
_LIST_HEAD = struct.Struct("<qI")
_TIMESTAMP = pa.timestamp("ms")

Entry = tuple[int, Any]


def is_expired(expiry_ms: int, now_ms: int) -> bool:
    """Whether an expiry lies at or before a time."""
    return expiry_ms <= now_ms and expiry_ms != NEVER


def are_live(expiries_ms: npt.NDArray[np.int64], now_ms: int) -> npt.NDArray[np.bool_]:
    """Which of some expiries have not passed at a time."""
    live: npt.NDArray[np.bool_] = (expiries_ms > now_ms) | (expiries_ms == NEVER)
    return live


def is_stored_expired(data: bytes, now_ms: int) -> bool:
    """The same for the LMDB value of an entry; for a list, whether all elements are expired."""
    return is_expired(stored_expiry(data), now_ms)


def stored_expiry(data: bytes) -> int:
    """The expiry in front of an LMDB value, in milliseconds."""
    expiry: int = _EXPIRY.unpack_from(data)[0]
    return expiry


class ExpiryLayout(ABC):
    """Takes expiries off entries and puts them back.

    Attributes:
        arrow_type: type of the column `expiry` in segments.
    """

    arrow_type: pa.DataType

    @abstractmethod
    def split(self, entries: Sequence[Any]) -> tuple[list[Any], pa.Array]:
        """The values of entries, and their expiries as a column."""

    @abstractmethod
    def join(self, values: list[Any], expiries: pa.Array) -> list[Any]:
        """What `split` took apart."""

    @abstractmethod
    def prefixes(self, expiries: pa.Array) -> list[bytes]:
        """What stands in front of the values in LMDB, for a column of expiries."""

    @abstractmethod
    def cut(self, data: bytes) -> tuple[Any, bytes]:
        """The expiry of an LMDB value, as `attach` takes it, and the value without it."""

    @abstractmethod
    def attach(self, expiry: Any, value: Any) -> Any:
        """The entry of one value."""

    @abstractmethod
    def latest(self, expiries: pa.Array) -> npt.NDArray[np.int64]:
        """When the last of each entry expires, in milliseconds; `NEVER` where it does not."""


class SingleExpiry(ExpiryLayout):
    """One expiry per entry."""

    arrow_type = _TIMESTAMP

    def split(self, entries: Sequence[Any]) -> tuple[list[Any], pa.Array]:
        expiries, values = zip(*entries, strict=True)
        return list(values), _column(np.array(expiries, dtype=np.int64))

    def join(self, values: list[Any], expiries: pa.Array) -> list[Any]:
        return list(zip(milliseconds(expiries).tolist(), values, strict=True))

    def prefixes(self, expiries: pa.Array) -> list[bytes]:
        prefixes: list[bytes] = milliseconds(expiries).astype("<i8").view("V8").tolist()
        return prefixes

    def cut(self, data: bytes) -> tuple[Any, bytes]:
        return stored_expiry(data), data[_EXPIRY.size :]

    def attach(self, expiry: Any, value: Any) -> Any:
        return expiry, value

    def latest(self, expiries: pa.Array) -> npt.NDArray[np.int64]:
        return milliseconds(expiries)


class ListExpiry(ExpiryLayout):
    """One expiry per element of a list."""

    arrow_type = pa.list_(_TIMESTAMP)

    def split(self, entries: Sequence[Any]) -> tuple[list[Any], pa.Array]:
        values = [[value for _, value in elements] for elements in entries]
        offsets = np.zeros(len(values) + 1, dtype=np.int32)
        np.cumsum([len(elements) for elements in values], out=offsets[1:])
        flat = np.array([expiry for elements in entries for expiry, _ in elements], dtype=np.int64)
        return values, pa.ListArray.from_arrays(pa.array(offsets), _column(flat))

    def join(self, values: list[Any], expiries: pa.Array) -> list[Any]:
        return list(map(self.attach, _nested(expiries), values))

    def prefixes(self, expiries: pa.Array) -> list[bytes]:
        return [
            _LIST_HEAD.pack(_last(row), len(row)) + struct.pack(f"<{len(row)}q", *row)
            for row in _nested(expiries)
        ]

    def cut(self, data: bytes) -> tuple[Any, bytes]:
        _, length = _LIST_HEAD.unpack_from(data)
        end = _LIST_HEAD.size + 8 * length
        return struct.unpack_from(f"<{length}q", data, _LIST_HEAD.size), data[end:]

    def attach(self, expiry: Any, value: Any) -> Any:
        return list(zip(expiry, value, strict=True))

    def latest(self, expiries: pa.Array) -> npt.NDArray[np.int64]:
        return np.array([_last(row) for row in _nested(expiries)], dtype=np.int64)


def _last(expiries: Sequence[int]) -> int:
    return NEVER if not expiries or NEVER in expiries else max(expiries)


def _column(expiries: npt.NDArray[np.int64]) -> pa.Array:
    return pa.array(expiries, mask=expiries == NEVER).cast(_TIMESTAMP)


def milliseconds(expiries: pa.Array) -> npt.NDArray[np.int64]:
    """The numbers of a column of expiries; `NEVER` where it is null."""
    import pyarrow.compute as pc

    numbers: npt.NDArray[np.int64] = pc.fill_null(expiries.cast(pa.int64()), NEVER).to_numpy()
    return numbers


def _nested(expiries: pa.Array) -> list[list[int]]:
    """The expiries of each row; none where the row is null."""
    import pyarrow.compute as pc

    flat = milliseconds(expiries.flatten()).tolist()
    ends = np.cumsum(pc.fill_null(pc.list_value_length(expiries), 0).to_numpy()).tolist()
    return [flat[start:end] for start, end in zip([0, *ends], ends, strict=False)]
