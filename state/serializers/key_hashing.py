"""Stable hashes and key groups of many keys at once (the scalar rule is in `protocol.key_groups`)."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ...protocol.key_groups import hash_bytes, hash_int, key_group_of_hash
from .key_codec import encode_key

_SPLITMIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_SPLITMIX_2 = np.uint64(0x94D049BB133111EB)


def hash_key(key: Any) -> int:
    """Stable 64-bit hash of one key; `KeyTypeError` when it has no deterministic encoding."""
    if isinstance(key, int | np.integer):
        return hash_int(int(key))
    return hash_bytes(encode_key(key))


def key_group_of(key: Any, max_parallelism: int) -> int:
    """Key group of one key."""
    return key_group_of_hash(hash_key(key), max_parallelism)


def hash_keys(keys: Sequence[Any]) -> npt.NDArray[np.uint64]:
    """Stable 64-bit hashes, element by element equal to `hash_key`.

    Lists of 64-bit integers and of text are vectorised; anything else goes key by key.

    Raises:
        KeyTypeError: when a key has no deterministic encoding.
    """
    first = type(keys[0]) if len(keys) else int
    if first is int or first is bool:
        integers = _as_int64(keys)
        if integers is not None:
            return hash_int64(integers)
    elif first is str and set(map(type, keys)) == {str}:
        return _hash_texts(keys)
    return np.fromiter(map(hash_key, keys), dtype=np.uint64, count=len(keys))


def key_groups_of(keys: Sequence[Any], max_parallelism: int) -> npt.NDArray[np.uint16]:
    """Key groups of many keys."""
    return key_groups_of_hashes(hash_keys(keys), max_parallelism)


def key_groups_of_hashes(hashes: npt.NDArray[np.uint64], max_parallelism: int) -> npt.NDArray[np.uint16]:
    """Key groups of keys with these hashes."""
    is_power_of_two = max_parallelism & (max_parallelism - 1) == 0
    groups: npt.NDArray[np.uint64] = (
        hashes & np.uint64(max_parallelism - 1) if is_power_of_two else hashes % np.uint64(max_parallelism)
    )
    return groups.astype(np.uint16)


def hash_int64(keys: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """Stable hashes of integer keys of 64 bits."""
    return _mix_64(keys.astype(np.uint64))


def _as_int64(keys: Sequence[Any]) -> npt.NDArray[np.int64] | None:
    """The keys as integers; None when some key is no integer of 64 bits."""
    try:
        array = np.asarray(keys)
    except (ValueError, TypeError, OverflowError):
        return None
    if array.ndim != 1 or array.dtype.kind not in "bi":
        return None
    return array.astype(np.int64, copy=False)


def _hash_texts(keys: Sequence[str]) -> npt.NDArray[np.uint64]:
    if "\x00".join(keys).count("\x00") != len(keys) - 1:
        return np.fromiter(map(hash_key, keys), dtype=np.uint64, count=len(keys))
    try:
        encoded = [b"\x02" + key.encode() + b"\x00" for key in keys]
    except UnicodeEncodeError:
        return np.fromiter(map(hash_key, keys), dtype=np.uint64, count=len(keys))
    checksums = np.fromiter(map(zlib.crc32, encoded), dtype=np.uint64, count=len(keys))
    lengths = np.fromiter(map(len, encoded), dtype=np.uint64, count=len(keys))
    return _mix_64(checksums | (lengths << np.uint64(32)))


def _mix_64(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The splitmix64 finaliser on a private array, which is changed in place."""
    values ^= values >> np.uint64(30)
    values *= _SPLITMIX_1
    values ^= values >> np.uint64(27)
    values *= _SPLITMIX_2
    values ^= values >> np.uint64(31)
    return values


__all__ = [
    "hash_int64",
    "hash_key",
    "hash_keys",
    "key_group_of",
    "key_groups_of",
    "key_groups_of_hashes",
]
