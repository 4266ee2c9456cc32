"""Compares two checkpoints, state by state and key-group range by key-group range."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...common.errors import StateError
from ..keyed.change_merge import with_one_key_type
from .array_comparison import differing
from .segments import KEY_COLUMNS
from .snapshot_columns import ColumnLayout, without_empty_encodings
from .snapshot_files import StateLocation, key_group_ranges
from .snapshot_reader import Snapshot, SnapshotOperator, read_snapshot
from .snapshot_states import RANGE_ROWS, KeyedSnapshotState


@dataclass(frozen=True)
class Changes:
    """What differs between two states, or between them in one range of key groups.

    Attributes:
        added: entries that only the newer one has; columns as in `SnapshotState.iter_batches`.
        removed: entries that only the older one has.
        changed: entries of both with different values: the key columns, `old_value`, `new_value`, and
            `old_value_encoded`, `new_value_encoded` where a value has no typed column.
    """

    added: pa.Table
    removed: pa.Table
    changed: pa.Table

    @property
    def is_empty(self) -> bool:
        """Whether nothing differs."""
        return not (self.added.num_rows or self.removed.num_rows or self.changed.num_rows)


class StateDiff:
    """The difference between a keyed state in two checkpoints. Nothing is read before it is asked for.

    Values are compared as what they are: numbers as numbers, lists element by element. Pickled values
    are compared byte by byte. A different expiry alone is no change.

    Args:
        old, new: the state in the older and in the newer checkpoint; None where there is none.

    Raises:
        StateError: when the two cannot be compared.
    """

    def __init__(self, old: KeyedSnapshotState | None, new: KeyedSnapshotState | None) -> None:
        states = [state for state in (old, new) if state is not None]
        self._sides = (old, new)
        self.where: StateLocation = states[-1].where
        if len({state.max_parallelism for state in states}) > 1:
            raise StateError(
                f"{self.where}: the checkpoints were written with max parallelism "
                f"{' and '.join(str(state.max_parallelism) for state in states)}, so their key groups are "
                f"not the same; compare two checkpoints of one max parallelism"
            )
        if len({state.kind for state in states}) > 1:
            raise StateError(
                f"{self.where}: a {states[0].kind} state cannot be compared with a {states[-1].kind} state"
            )

    @property
    def operator_uid(self) -> str:
        """Uid of the operator."""
        return self.where.operator_uid

    @property
    def state_name(self) -> str:
        """Name of the state."""
        return self.where.state_name

    def iter_changes(self) -> Iterator[Changes]:
        """The differences, range by range, in bounded memory; ranges without any are left out."""
        old, new = self._layouts()
        row_groups = [
            entry for side in self._sides if side is not None for entry in side.segments.row_groups()
        ]
        for key_groups in key_group_ranges(row_groups, RANGE_ROWS):
            tables = [None if side is None else side.segments.read(key_groups) for side in self._sides]
            changes = _compared(tables[0], tables[1], old, new)
            if not changes.is_empty:
                yield changes

    def changes(self) -> Changes:
        """All differences at once; without the columns of pickled values when nothing is in them."""
        old, new = self._layouts()
        parts = [_compared(None, None, old, new), *self.iter_changes()]
        return Changes(
            without_empty_encodings(pa.concat_tables(part.added for part in parts)),
            without_empty_encodings(pa.concat_tables(part.removed for part in parts)),
            without_empty_encodings(pa.concat_tables(part.changed for part in parts)),
        )

    @property
    def added(self) -> pa.Table:
        """Entries that only the newer checkpoint has."""
        return self.changes().added

    @property
    def removed(self) -> pa.Table:
        """Entries that only the older checkpoint has."""
        return self.changes().removed

    @property
    def changed(self) -> pa.Table:
        """Entries of both with their old and new values."""
        return self.changes().changed

    def _layouts(self) -> tuple[ColumnLayout, ColumnLayout]:
        types = [[] if side is None else side.segments.types() for side in self._sides]
        old, new = (side or other for side, other in zip(self._sides, reversed(self._sides), strict=True))
        assert old is not None
        assert new is not None
        return (
            ColumnLayout(self.where, old.schema, old.stored_values, types[0] or types[1], types[1]),
            ColumnLayout(self.where, new.schema, new.stored_values, types[1] or types[0], types[0]),
        )


@dataclass(frozen=True)
class SnapshotDiff:
    """The difference between two checkpoints.

    Attributes:
        operators_added, operators_removed: uids that only the newer or only the older one has.
        states: the keyed states of either, in order.
    """

    operators_added: tuple[str, ...]
    operators_removed: tuple[str, ...]
    states: tuple[StateDiff, ...]

    def state(self, uid: str, name: str) -> StateDiff:
        """One state; `StateError` when neither checkpoint has it."""
        for state in self.states:
            if (state.operator_uid, state.state_name) == (uid, name):
                return state
        there = ", ".join(f"{state.operator_uid}/{state.state_name}" for state in self.states) or "none"
        raise StateError(f"neither checkpoint has a keyed state {name!r} of uid {uid!r}; there is: {there}")


def diff(a: str | Snapshot, b: str | Snapshot) -> SnapshotDiff:
    """Compare the keyed state of two checkpoints.

    Args:
        a: the older one, opened or as a path.
        b: the newer one.

    Raises:
        CheckpointNotFoundError: there is no checkpoint at a path.
        CorruptCheckpointError: a manifest is damaged.
        StateError: when a state cannot be compared: its kind or its max parallelism is another one.
    """
    old = a if isinstance(a, Snapshot) else read_snapshot(a)
    new = b if isinstance(b, Snapshot) else read_snapshot(b)
    states = []
    for uid in dict.fromkeys((*new.operators, *old.operators)):
        before, after = _states(old.operators.get(uid)), _states(new.operators.get(uid))
        for name in dict.fromkeys((*after, *before)):
            states.append(StateDiff(before.get(name), after.get(name)))
    return SnapshotDiff(
        tuple(uid for uid in new.operators if uid not in old.operators),
        tuple(uid for uid in old.operators if uid not in new.operators),
        tuple(states),
    )


def _states(operator: SnapshotOperator | None) -> Mapping[str, KeyedSnapshotState]:
    return {} if operator is None else operator.keyed_states


def _compared(
    old: pa.Table | None, new: pa.Table | None, old_layout: ColumnLayout, new_layout: ColumnLayout
) -> Changes:
    if old is None or new is None:
        added = _shown(new_layout, new)
        removed = _shown(old_layout, old)
        return Changes(
            added, removed, _changed(_shown(old_layout, None), _shown(new_layout, None), new_layout)
        )
    matched = _matched(old, new)
    old_rows, new_rows = matched["old_row"], matched["new_row"]
    both = matched.filter(pc.and_(old_rows.is_valid(), new_rows.is_valid()))
    before, after = old.take(both["old_row"]), new.take(both["new_row"])
    mask = pa.array(_values_differ(before, after))
    return Changes(
        _shown(new_layout, new.take(new_rows.filter(old_rows.is_null()))),
        _shown(old_layout, old.take(old_rows.filter(new_rows.is_null()))),
        _changed(_shown(old_layout, before.filter(mask)), _shown(new_layout, after.filter(mask)), new_layout),
    )


def _matched(old: pa.Table, new: pa.Table) -> pa.Table:
    """The rows of one entry side by side, as `old_row` and `new_row`; null where there is none."""
    one, other = with_one_key_type([old, new])
    by = [name for name in KEY_COLUMNS if not pa.types.is_null(one[name].type)]
    left = one.select(by).append_column("old_row", pa.array(np.arange(len(one))))
    right = other.select(by).append_column("new_row", pa.array(np.arange(len(other))))
    return left.join(right, keys=by, join_type="full outer").sort_by(
        [("new_row", "ascending"), ("old_row", "ascending")]
    )


def _values_differ(old: pa.Table, new: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    result = np.zeros(len(old), dtype=bool)
    for name in ("value", "value_encoded"):
        before, after = old[name].combine_chunks(), new[name].combine_chunks()
        if before.type != after.type:
            try:
                before = before.cast(after.type)
            except pa.ArrowException:
                return np.ones(len(old), dtype=bool)
        result |= differing(before, after)
    return result


def _shown(layout: ColumnLayout, table: pa.Table | None) -> pa.Table:
    return layout.schema.empty_table() if table is None else layout.table(table)


def _changed(old: pa.Table, new: pa.Table, layout: ColumnLayout) -> pa.Table:
    columns = {name: new[name] for name in layout.key_columns}
    for name in ("value", "value_encoded"):
        for prefix, side in (("old", old), ("new", new)):
            if name in side.column_names:
                columns[f"{prefix}_{name}"] = side[name]
    return pa.table(columns)
