"""`tidegate savepoint check` says what a restore would do, and starts nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tidegate.console.main import main

from .drivers import OPEN, checkpoint_of, driver


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A checkpoint of the unchanged program."""
    directory = tmp_path_factory.mktemp("stored")
    return checkpoint_of(directory, driver(directory / "job.py"))


class Checked:
    """What the command printed."""

    def __init__(self, code: int, out: str) -> None:
        self.code = code
        self.result: dict[str, Any] = json.loads(out)
        self.operators = {operator["uid"]: operator for operator in self.result["operators"]}

    def outcomes(self, uid: str = "totals") -> dict[str, str]:
        return {state["name"]: state["outcome"] for state in self.operators[uid]["states"]}

    def state(self, name: str) -> dict[str, Any]:
        (found,) = (state for state in self.operators["totals"]["states"] if state["name"] == name)
        return found  # type: ignore[no-any-return]


@pytest.fixture
def check(stored: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*options: str, **changes: object) -> Checked:
        program = driver(tmp_path / "changed.py", **changes)
        with pytest.raises(SystemExit) as ended:
            main(["savepoint", "check", "--json", *options, stored, program, str(tmp_path / "run")])
        return Checked(int(ended.value.code or 0), capsys.readouterr().out)

    return run


def test_an_unchanged_program_restores_everything(check: Any, tmp_path: Path) -> None:
    checked = check()
    assert checked.code == 0
    assert checked.result["would_restore"] is True
    assert checked.outcomes() == {"total": "maps", "seen": "maps"}
    assert checked.outcomes("numbers") == {"_source_splits": "maps"}
    assert not (tmp_path / "run").exists(), "nothing may be started or written"


def test_text_for_people_says_the_same(
    stored: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = OPEN.replace("'total', Types.LONG()", "'total', Types.STRING()")
    program = driver(tmp_path / "changed.py", open=changed, parallelism=3)
    with pytest.raises(SystemExit) as ended:
        main(["savepoint", "check", stored, program, str(tmp_path)])
    assert ended.value.code == 1
    lines = capsys.readouterr().out.splitlines()
    assert "Totals (uid totals), parallelism 2 -> 3" in lines
    assert any(line.split()[:3] == ["total", "value", "incompatible"] for line in lines)
    assert "    total was stored as    key_type: LONG, kind: value, value_type: LONG" in lines
    assert "    total is now declared  key_type: LONG, kind: value, value_type: STRING" in lines
    assert lines[-1] == "would not restore: 1 problem"


def test_a_wider_type_is_an_evolution(check: Any) -> None:
    checked = check(open=OPEN.replace("'total', Types.LONG()", "'total', Types.BIG_INT()"))
    assert checked.code == 0
    assert checked.state("total")["outcome"] == "evolved"
    assert "widened from LONG to BIG_INT" in checked.state("total")["text"]


def test_a_changed_type_is_incompatible_with_both_schemas(check: Any) -> None:
    checked = check(open=OPEN.replace("Types.BOOLEAN()", "Types.STRING()"))
    assert checked.code == 1
    seen = checked.state("seen")
    assert seen["outcome"] == "incompatible"
    assert (seen["stored"]["value_type"], seen["declared"]["value_type"]) == ("BOOLEAN", "STRING")
    assert any("'Totals' (uid totals), state 'seen'" in problem for problem in checked.result["problems"])


def test_renamed_states_and_previous_uids_are_found(check: Any) -> None:
    renamed = OPEN.replace(
        "MapStateDescriptor('seen', Types.LONG(), Types.BOOLEAN())",
        "MapStateDescriptor('known', Types.LONG(), Types.BOOLEAN()).renamed_from('seen')",
    )
    checked = check(open=renamed, uid="sums', previously='totals")
    assert checked.code == 0
    assert checked.outcomes("sums") == {"total": "maps", "known": "renamed"}
    assert checked.operators["sums"]["notes"] == ["its state is that of its previous uid totals"]
    assert "totals" not in checked.operators


def test_new_and_unclaimed_states_are_named(check: Any) -> None:
    checked = check(open=OPEN.replace("'seen'", "'noticed'"))
    assert checked.code == 1
    assert checked.outcomes() == {"total": "maps", "noticed": "new", "seen": "unclaimed"}
    assert "renamed_from" in checked.result["problems"][0]
    checked = check("--allow-non-restored-state", open=OPEN.replace("'seen'", "'noticed'"))
    assert checked.code == 0
    assert checked.outcomes() == {"total": "maps", "noticed": "new", "seen": "unused"}


def test_state_of_an_operator_that_is_gone_is_a_problem_unless_allowed(check: Any) -> None:
    checked = check(uid="other")
    assert checked.code == 1
    assert checked.outcomes("totals") == {"total": "dropped", "seen": "dropped"}
    assert checked.outcomes("other") == {"total": "new", "seen": "new"}
    assert "ignore-unclaimed-state" in checked.result["problems"][0]
    assert check("--allow-non-restored-state", uid="other").code == 0


def test_another_max_parallelism_is_a_problem(check: Any) -> None:
    checked = check(max_parallelism=64)
    assert checked.code == 1
    assert "set_max_parallelism(128)" in checked.result["problems"][0]


def test_an_open_that_raises_is_reported_and_the_check_goes_on(check: Any) -> None:
    checked = check(open="raise OSError('no network here')")
    assert checked.code == 0
    assert checked.outcomes() == {"total": "unknown", "seen": "unknown"}
    assert "no network here" in checked.operators["totals"]["notes"][0]
    assert checked.outcomes("numbers") == {"_source_splits": "maps"}


@pytest.mark.parametrize(
    "execute",
    [
        "env.execute_async('x')",
        "totals.execute_and_collect()",
        "try:\n    env.execute()\nexcept Exception:\n    sys.exit(3)",
    ],
)
def test_every_way_to_execute_is_intercepted(check: Any, execute: str, tmp_path: Path) -> None:
    checked = check(execute=execute)
    assert checked.code == 0
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("execute", "message"),
    [
        ("pass", "executed no job"),
        ("1 / 0", "raised ZeroDivisionError before it executed a job"),
        ("sys.exit(4)", "ended with exit code 4 before it executed a job"),
    ],
)
def test_a_driver_without_a_job_is_an_error(
    stored: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], execute: str, message: str
) -> None:
    program = driver(tmp_path / "job.py", execute=execute)
    with pytest.raises(SystemExit) as ended:
        main(["savepoint", "check", stored, program, str(tmp_path)])
    assert ended.value.code == 1
    assert message in capsys.readouterr().err


def test_a_driver_that_is_not_there_is_a_usage_error(stored: str, tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["savepoint", "check", stored, str(tmp_path / "none.py")])
    assert ended.value.code == 2
