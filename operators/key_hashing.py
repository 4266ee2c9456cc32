"""Vectorised key hashing for the partitioners.

The code lives in `state`, which needs it too and may not import this room.
"""

from __future__ import annotations

from ..state.key_hashing import hash_key, hash_keys, key_group_of, key_groups_of

__all__ = ["hash_key", "hash_keys", "key_group_of", "key_groups_of"]
