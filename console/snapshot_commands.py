"""`tidegate snapshot …`: look into checkpoints and savepoints."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import click

from ..state.snapshot_diff import SnapshotDiff, StateDiff, diff
from ..state.snapshot_reader import Snapshot, SnapshotOperator, read_snapshot
from .text import moment, size, table


@click.group()
def snapshot() -> None:
    """Look into checkpoints and savepoints."""


@snapshot.command()
@click.argument("path")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(path: str, as_json: bool) -> None:
    """List the operators and states of the checkpoint at PATH (…/<job id>/chk-12, or s3://…)."""
    opened = read_snapshot(path)
    _print(_described(opened), as_json, lambda: _shown(opened))


@snapshot.command("diff")
@click.argument("old")
@click.argument("new")
@click.option("--limit", default=10, show_default=True, help="Keys to print for each state.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def diff_command(old: str, new: str, limit: int, as_json: bool) -> None:
    """Say which keys the checkpoint NEW added, removed and changed against the checkpoint OLD."""
    compared = diff(old, new)
    states = [_counted(state, limit) for state in compared.states]
    _print(_summary(compared, states), as_json, lambda: _compared(compared, states))


def _print(described: dict[str, Any], as_json: bool, lines: Any) -> None:
    click.echo(json.dumps(described, indent=2, default=str) if as_json else "\n".join(lines()))


def _described(opened: Snapshot) -> dict[str, Any]:
    return {
        "checkpoint_id": opened.checkpoint_id,
        "kind": opened.kind,
        "job_id": opened.job_id,
        "job_name": opened.job_name,
        "triggered_ms": opened.triggered_ms,
        "completed_ms": opened.completed_ms,
        "size_bytes": opened.size_bytes,
        "operators": [
            {
                "uid": operator.uid,
                "name": operator.name,
                "parallelism": operator.parallelism,
                "max_parallelism": operator.max_parallelism,
                "states": [
                    {
                        "name": state.name,
                        "kind": state.kind,
                        "schema": state.schema,
                        "stored_rows": state.stored_rows,
                        "size_bytes": state.size_bytes,
                    }
                    for state in operator.states
                ],
            }
            for operator in opened.operators.values()
        ],
    }


def _shown(opened: Snapshot) -> Iterable[str]:
    yield f"{opened.kind} {opened.checkpoint_id} of job {opened.job_name!r} ({opened.job_id})"
    yield f"completed {moment(opened.completed_ms)}, {size(opened.size_bytes)}"
    for operator in opened.operators.values():
        yield ""
        yield (
            f"{operator.name} (uid {operator.uid}), parallelism {operator.parallelism} of "
            f"{operator.max_parallelism}"
        )
        yield from _states(operator)


def _states(operator: SnapshotOperator) -> list[str]:
    if not operator.states:
        return ["  no state"]
    rows: list[list[object]] = [["STATE", "KIND", "KEY", "MAP KEY", "VALUE", "TTL", "STORED ROWS", "SIZE"]]
    for state in operator.states:
        types = [state.schema.get(name, "-") for name in ("key_type", "map_key_type", "value_type", "ttl")]
        rows.append([state.name, state.kind, *types, state.stored_rows, size(state.size_bytes)])
    return table(rows)


class _Counted:
    """A state's changes: how many, and the first of them."""

    def __init__(self, state: StateDiff, limit: int) -> None:
        self.state = state
        self.counts = {"added": 0, "removed": 0, "changed": 0}
        self.first: dict[str, list[dict[str, Any]]] = {name: [] for name in self.counts}
        for changes in state.iter_changes():
            for name in self.counts:
                part = getattr(changes, name)
                self.counts[name] += part.num_rows
                missing = limit - len(self.first[name])
                self.first[name] += part.slice(0, max(0, missing)).to_pylist()


def _counted(state: StateDiff, limit: int) -> _Counted:
    return _Counted(state, limit)


def _summary(compared: SnapshotDiff, states: list[_Counted]) -> dict[str, Any]:
    return {
        "operators_added": list(compared.operators_added),
        "operators_removed": list(compared.operators_removed),
        "states": [
            {
                "operator_uid": each.state.operator_uid,
                "state": each.state.state_name,
                "counts": each.counts,
                "first": each.first,
            }
            for each in states
        ],
    }


def _compared(compared: SnapshotDiff, states: list[_Counted]) -> Iterable[str]:
    for uid in compared.operators_added:
        yield f"operator {uid} is new"
    for uid in compared.operators_removed:
        yield f"operator {uid} is gone"
    rows: list[list[object]] = [["OPERATOR", "STATE", "ADDED", "REMOVED", "CHANGED"]]
    rows += [[each.state.operator_uid, each.state.state_name, *each.counts.values()] for each in states]
    yield from table(rows, indent="")
    for each in states:
        if any(each.counts.values()):
            yield ""
            yield f"{each.state.operator_uid}/{each.state.state_name}"
            yield from _first_changes(each)


def _first_changes(counted: _Counted) -> Iterable[str]:
    for sign, name in (("+", "added"), ("-", "removed"), ("~", "changed")):
        for row in counted.first[name]:
            yield f"  {sign} " + "  ".join(
                f"{column}={value!r}" for column, value in row.items() if value is not None
            )
        left = counted.counts[name] - len(counted.first[name])
        if left:
            yield f"  {sign} … {left} more"
