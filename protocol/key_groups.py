"""Keys, key groups and the subtasks that own them.

A key group is the unit in which keyed state moves: every key belongs to exactly one of
`max_parallelism` groups, for ever, and a subtask owns a contiguous range of groups. The hash must be
the same on every platform and in every process, so Python's own (seeded) `hash` is never used.

Sources: Flink's `KeyGroupRangeAssignment` (range formula) and the 64-bit finaliser of splitmix64
(Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from ..common.errors import ConfigurationError

DEFAULT_LOWER_BOUND_MAX_PARALLELISM = 128
UPPER_BOUND_MAX_PARALLELISM = 32_768

_MASK_64 = (1 << 64) - 1
_SPLITMIX_1 = 0xBF58476D1CE4E5B9
_SPLITMIX_2 = 0x94D049BB133111EB


@dataclass(frozen=True, slots=True)
class KeyGroupRange:
    """Contiguous key groups `start` to `end`, both included. Empty when `end < start`.

    Raises:
        ConfigurationError: A key group of the range is below 0 or above 32767.
    """

    start: int
    end: int

    def __post_init__(self) -> None:
        # An empty range may end at -1: where it meets another one, nothing is left.
        is_possible = self.start >= 0 and self.end >= -1
        if not is_possible or (self.start <= self.end and self.end >= UPPER_BOUND_MAX_PARALLELISM):
            raise ConfigurationError(
                f"[{self.start}, {self.end}] is not a range of key groups: they are numbered from 0 to "
                f"{UPPER_BOUND_MAX_PARALLELISM - 1}"
            )

    @property
    def size(self) -> int:
        """Number of key groups in the range."""
        return max(0, self.end - self.start + 1)

    def contains(self, key_group: int) -> bool:
        """Whether `key_group` lies in the range."""
        return self.start <= key_group <= self.end

    def intersect(self, other: KeyGroupRange) -> KeyGroupRange:
        """The key groups in both ranges; an empty range when they do not meet."""
        return KeyGroupRange(max(self.start, other.start), min(self.end, other.end))


def mix_64(value: int) -> int:
    """Spread the bits of an unsigned 64-bit integer (splitmix64 finaliser)."""
    value &= _MASK_64
    value = ((value ^ (value >> 30)) * _SPLITMIX_1) & _MASK_64
    value = ((value ^ (value >> 27)) * _SPLITMIX_2) & _MASK_64
    return value ^ (value >> 31)


def hash_int(value: int) -> int:
    """Stable 64-bit hash of an integer key of any size.

    Integers of 64 bits or fewer hash by their two's complement; larger ones by their decimal text.
    """
    if -(1 << 63) <= value < (1 << 63):
        return mix_64(value)
    return hash_bytes(str(value).encode("ascii"))


def hash_bytes(data: bytes) -> int:
    """Stable 64-bit hash of an encoded key."""
    return mix_64(zlib.crc32(data) | (len(data) << 32))


def key_group_of_hash(key_hash: int, max_parallelism: int) -> int:
    """Key group of a key with the stable hash `key_hash`."""
    return key_hash % max_parallelism


def subtask_of_key_group(key_group: int, max_parallelism: int, parallelism: int) -> int:
    """Index of the subtask that owns `key_group`."""
    return key_group * parallelism // max_parallelism


def key_group_range_of_subtask(subtask_index: int, max_parallelism: int, parallelism: int) -> KeyGroupRange:
    """Key groups owned by one subtask: the exact inverse of `subtask_of_key_group`."""
    start = (subtask_index * max_parallelism + parallelism - 1) // parallelism
    end = ((subtask_index + 1) * max_parallelism - 1) // parallelism
    return KeyGroupRange(start, end)


def default_max_parallelism(parallelism: int) -> int:
    """Flink's default: 1.5 times the parallelism, rounded up to a power of two, at least 128."""
    scaled = parallelism + parallelism // 2
    rounded = 1 << max(0, scaled - 1).bit_length()
    return min(max(rounded, DEFAULT_LOWER_BOUND_MAX_PARALLELISM), UPPER_BOUND_MAX_PARALLELISM)


def check_parallelism(operator_name: str, parallelism: int, max_parallelism: int) -> None:
    """Raise `ConfigurationError` unless `1 <= parallelism <= max_parallelism <= 32768`."""
    if not 1 <= max_parallelism <= UPPER_BOUND_MAX_PARALLELISM:
        raise ConfigurationError(
            f"operator {operator_name!r}: max parallelism {max_parallelism} is not between 1 and "
            f"{UPPER_BOUND_MAX_PARALLELISM}; set another with set_max_parallelism()"
        )
    if not 1 <= parallelism <= max_parallelism:
        raise ConfigurationError(
            f"operator {operator_name!r}: parallelism {parallelism} is not between 1 and its max "
            f"parallelism {max_parallelism}; lower set_parallelism() or raise set_max_parallelism()"
        )
