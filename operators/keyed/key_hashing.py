"""Vectorised key hashing for the partitioners.

The code lives in `state`, which needs it too and may not import this room.
"""

from __future__ import annotations

from ...state.serializers.key_hashing import (
    hash_int64,
    hash_key,
    hash_keys,
    key_group_of,
    key_groups_of,
    key_groups_of_hashes,
)

__all__ = ["hash_int64", "hash_key", "hash_keys", "key_group_of", "key_groups_of", "key_groups_of_hashes"]
