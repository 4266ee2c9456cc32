"""`tidegate savepoint inspect` and `diff` print what is in checkpoints, as text and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tidegate.common import Types
from tidegate.common.typeinfo import type_text
from tidegate.console.main import main
from tidegate.protocol.checkpoints.handles import (
    ChannelStateHandle,
    FileHandle,
    KeyedStateHandle,
    OperatorListHandle,
    OperatorSnapshot,
)
from tidegate.protocol.checkpoints.manifest import CheckpointManifest, OperatorManifest, encode_manifest
from tidegate.protocol.elements import SnapshotKind
from tidegate.protocol.ids import CheckpointId

from .drivers import checkpoint_of, driver


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, output and errors of a command."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    captured = capsys.readouterr()
    return int(ended.value.code or 0), captured.out, captured.err


def test_show_lists_operators_and_states(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = checkpoint_of(tmp_path / "job", driver(tmp_path / "job.py"))
    code, out, _ = run(capsys, "savepoint", "inspect", path)
    assert code == 0
    assert "of job 'flights'" in out
    lines = out.splitlines()
    assert "Totals (uid totals), parallelism 2 of 128" in lines
    start = lines.index("Totals (uid totals), parallelism 2 of 128")
    header, seen, total = (line.split() for line in lines[start + 1 : start + 4])
    assert header == ["STATE", "KIND", "KEY", "MAP", "KEY", "VALUE", "TTL", "STORED", "ROWS", "SIZE"]
    assert seen[:7] == ["seen", "map", "LONG", "LONG", "BOOLEAN", "-", "100"]
    assert total[:7] == ["total", "value", "LONG", "-", "LONG", "-", "5"]
    code, out, _ = run(capsys, "savepoint", "inspect", "--json", path)
    described = json.loads(out)
    assert (code, described["job_name"]) == (0, "flights")
    (operator,) = (each for each in described["operators"] if each["uid"] == "totals")
    assert operator["states"][1]["schema"]["value_type"] == "LONG"


def test_inspect_lists_every_place_that_a_restore_unpickles(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = FileHandle("shared/x", 1, "0" * 64)
    nested = type_text(Types.TUPLE([Types.LONG(), Types.LIST(Types.PICKLED_BYTE_ARRAY())]))
    schemas: dict[str, dict[str, object]] = {
        "typed": {"kind": "value", "value_type": "LONG", "key_type": "LONG"},
        "nested": {"kind": "value", "value_type": nested},
        "any": {"kind": "list", "value_type": "PICKLED_BYTE_ARRAY"},
    }
    lists = (
        OperatorListHandle("splits", "even-split", {"kind": "list", "value_type": "PICKLED_BYTE_ARRAY"}),
        OperatorListHandle("rules", "broadcast", {"kind": "map", "value_type": "DOUBLE"}),
    )
    in_flight = ChannelStateHandle(file, ())
    subtask = OperatorSnapshot(KeyedStateHandle((), schemas), lists, in_flight)
    operators = {
        "totals": OperatorManifest("totals", "Totals", 128, (subtask,)),
        "source": OperatorManifest("source", "Source", 128, (OperatorSnapshot(),), b"pickle"),
    }
    manifest = CheckpointManifest("job", "name", CheckpointId(1), SnapshotKind.CHECKPOINT, 1, 2, operators)
    (tmp_path / "MANIFEST").write_bytes(encode_manifest(manifest))
    code, out, _ = run(capsys, "savepoint", "inspect", str(tmp_path))
    assert code == 0
    listed = out[out.index("A restore unpickles") :].splitlines()[1:]
    assert listed == [
        "  operator 'Totals' (uid totals), state 'any': values without a declared type",
        "  operator 'Totals' (uid totals), state 'nested': parts of its values without a declared type "
        f"({nested})",
        "  operator 'Totals' (uid totals), state 'splits': values without a declared type",
        "  operator 'Totals' (uid totals): records in flight (an unaligned checkpoint)",
        "  operator 'Source' (uid source): the source's enumerator",
    ]
    _, out, _ = run(capsys, "savepoint", "inspect", "--json", str(tmp_path))
    places = json.loads(out)["unpickled_by_a_restore"]
    assert [place["state"] for place in places] == ["any", "nested", "splits", None, None]


def test_inspect_says_that_a_restore_unpickles_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    schemas: dict[str, dict[str, object]] = {"typed": {"kind": "value", "value_type": "LONG"}}
    operator = OperatorManifest("totals", "Totals", 128, (OperatorSnapshot(KeyedStateHandle((), schemas)),))
    manifest = CheckpointManifest(
        "job", "name", CheckpointId(1), SnapshotKind.CHECKPOINT, 1, 2, {"totals": operator}
    )
    (tmp_path / "MANIFEST").write_bytes(encode_manifest(manifest))
    _, out, _ = run(capsys, "savepoint", "inspect", str(tmp_path))
    assert out.splitlines()[-1] == "A restore unpickles nothing of it."


def test_diff_counts_and_names_the_keys_that_differ(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = checkpoint_of(tmp_path / "one", driver(tmp_path / "one.py"))
    new = checkpoint_of(tmp_path / "two", driver(tmp_path / "two.py", count=102))
    code, out, _ = run(capsys, "savepoint", "diff", old, new, "--limit", "1")
    assert code == 0
    lines = [line.split() for line in out.splitlines()]
    assert ["OPERATOR", "STATE", "ADDED", "REMOVED", "CHANGED"] in lines
    assert ["totals", "seen", "2", "0", "0"] in lines
    assert ["totals", "total", "0", "0", "2"] in lines
    assert "  + … 1 more" in out.splitlines()
    assert "old_value=950" in out
    code, out, _ = run(capsys, "savepoint", "diff", old, new, "--json")
    (total,) = (each for each in json.loads(out)["states"] if each["state"] == "total")
    assert total["counts"] == {"added": 0, "removed": 0, "changed": 2}
    changed = {row["key"]: (row["old_value"], row["new_value"]) for row in total["first"]["changed"]}
    assert changed == {0: (950, 1_050), 1: (970, 1_071)}


def test_what_is_no_checkpoint_is_an_error_and_exit_code_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "savepoint", "inspect", str(tmp_path / "none"))
    assert (code, out) == (3, "")
    assert err.startswith("tidegate: there is no checkpoint at ")


def test_a_command_that_is_not_understood_ends_with_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "savepoint", "paint")[0] == 2
    assert run(capsys, "savepoint", "inspect")[0] == 2
