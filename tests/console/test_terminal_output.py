"""No name from outside controls the terminal that shows it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tidegate.console.main import main
from tidegate.console.text import printable, printable_json
from tidegate.protocol.checkpoints.handles import KeyedStateHandle, OperatorSnapshot
from tidegate.protocol.checkpoints.manifest import CheckpointManifest, OperatorManifest, encode_manifest
from tidegate.protocol.elements import SnapshotKind
from tidegate.protocol.ids import CheckpointId

HOSTILE = "a\x1b[2J\x1b]0;title\x07\x9b31m\u202egnp.exe\r\x00b"


@pytest.fixture
def savepoint(tmp_path: Path) -> Path:
    """One whose every text is hostile."""
    schema: dict[str, object] = {"kind": HOSTILE, "value_type": "LONG", "key_type": "LONG"}
    snapshot = OperatorSnapshot(KeyedStateHandle((), {HOSTILE: schema}))
    operator = OperatorManifest(HOSTILE, HOSTILE, 128, (snapshot,))
    manifest = CheckpointManifest(
        HOSTILE, HOSTILE, CheckpointId(1), SnapshotKind.SAVEPOINT, 1, 2, {HOSTILE: operator}
    )
    directory = tmp_path / "kept" / "savepoint-1"
    directory.mkdir(parents=True)
    (directory / "MANIFEST").write_bytes(encode_manifest(manifest))
    return directory


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, str]:
    """Output and errors of a command."""
    with pytest.raises(SystemExit):
        main(arguments)
    captured = capsys.readouterr()
    for stream in captured:
        assert stream.replace("\n", "").isprintable(), stream
    return captured.out, captured.err


def test_names_in_savepoints_are_shown_and_not_obeyed(
    savepoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed, _ = run(capsys, "savepoint", "list", str(savepoint.parent))
    assert "\\x1b[2J" in listed
    inspected, _ = run(capsys, "savepoint", "inspect", str(savepoint))
    assert "\\x1b[2J" in inspected
    run(capsys, "savepoint", "diff", str(savepoint), str(savepoint))
    run(capsys, "savepoint", "dispose", str(savepoint))


def test_a_directory_is_shown_and_not_obeyed(savepoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    moved = savepoint.parent / HOSTILE.replace("\x00", "")
    savepoint.rename(moved)
    listed, _ = run(capsys, "savepoint", "list", str(savepoint.parent))
    assert "\\x1b[2J" in listed
    _, err = run(capsys, "savepoint", "inspect", f"{moved}/nowhere")
    assert "\\x1b[2J" in err


def test_json_holds_the_names_themselves(savepoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = run(capsys, "savepoint", "list", str(savepoint.parent), "--json")
    (found,) = json.loads(out)["savepoints"]
    assert found["job_name"] == HOSTILE
    assert found["path"] == str(savepoint)


@pytest.mark.parametrize("flag", [[], ["--json"]])
def test_errors_are_shown_and_not_obeyed(
    savepoint: Path, capsys: pytest.CaptureFixture[str], flag: list[str]
) -> None:
    (savepoint / "MANIFEST").write_bytes(b"tidegate-checkpoint \x1b[2J 0\n")
    _, err = run(capsys, "savepoint", "inspect", str(savepoint), *flag)
    assert "\\x1b[2J" in err
    run(capsys, "savepoint", "list", str(savepoint.parent), *flag)


@given(st.text())
def test_only_what_a_terminal_shows_is_left(text: str) -> None:
    shown = printable(text)
    assert all(each.isprintable() or each in "\n\t" or each.isspace() for each in shown)
    assert "\x1b" not in shown
    assert printable(shown) == shown


@given(st.recursive(st.text() | st.integers(), lambda inner: st.dictionaries(st.text(), inner)))
def test_a_document_stays_the_same(document: object) -> None:
    text = printable_json(json.dumps(document, indent=2, ensure_ascii=False))
    assert json.loads(text) == document
    assert text.replace("\n", "").isprintable()
