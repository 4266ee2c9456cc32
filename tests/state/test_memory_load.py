"""What a restore puts into memory, and how it leaves the garbage collector."""

from __future__ import annotations

import gc

import pytest
from tidegate.common.errors import KeyTypeError
from tidegate.common.typeinfo import Types
from tidegate.state.keyed.change_merge import sorted_table
from tidegate.state.keyed.changes import change_table
from tidegate.state.keyed.memory_load import load_into_memory
from tidegate.state.keyed.tables import FlatTable, FrozenTable, TableSettings
from tidegate.state.lmdb.write_interleaving import WriteInterleaver
from tidegate.state.serializers.codecs import value_codec


def table() -> FlatTable:
    codec = value_codec(Types.TUPLE([Types.LONG(), Types.LONG()]))
    return FlatTable(TableSettings("pairs", codec, None, None, True, None, False))


def test_many_restored_keys_keep_their_values() -> None:
    pairs = {key * 7 - 100_000: (key, -key) for key in range(70_000)}
    stored = change_table(FrozenTable(table(), dict(pairs), False, []), 128, WriteInterleaver())
    restored = table()
    load_into_memory(restored, stored)
    assert restored.values == pairs
    # So that a dict of a million entries is filled from one end to the other.
    assert list(restored.values) == sorted(pairs)


@pytest.mark.parametrize("is_on", [True, False])
def test_the_collector_is_after_a_load_what_it_was_before(is_on: bool) -> None:
    class Refusing(FlatTable):
        def load(self, keys: object, map_keys: object, values: object) -> None:
            assert not gc.isenabled()
            raise KeyTypeError("refused")

    stored = change_table(FrozenTable(table(), {1: (2, 3)}, False, []), 128, WriteInterleaver())
    refusing = Refusing(TableSettings("pairs", table().codec, None, None, True, None, False))
    was_on = gc.isenabled()
    (gc.enable if is_on else gc.disable)()
    try:
        with pytest.raises(KeyTypeError):
            load_into_memory(refusing, sorted_table(stored))
        assert gc.isenabled() is is_on
    finally:
        (gc.enable if was_on else gc.disable)()
