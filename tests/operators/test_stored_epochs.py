"""Checkpoints with epochs in flight are restored, whatever version their format has."""

from __future__ import annotations

import pytest
from tidegate.protocol.checkpoints.redistribution import redistribute
from tidegate.state.operator.epoch_tables import FORMAT_VERSION
from tidegate.state.storage.stored_checkpoint import read_checkpoint

from .test_epoch_stage import Stages
from .write_epochs import FIXTURES

LEFT = {
    # Epochs had numbers that did not matter, and all results had begun to leave.
    "epochs-1": [0, 2, 4, 14, 18],
    "epochs-2": [0, 2, 14, 18],
}
"""The results that had not been emitted."""


def test_there_is_a_fixture_of_each_version() -> None:
    versions = [f"epochs-{version}" for version in range(1, FORMAT_VERSION + 1)]
    assert sorted(path.name for path in FIXTURES.glob("epochs-*")) == versions == list(LEFT)


@pytest.mark.parametrize("subtasks", [1, 2, 3])
@pytest.mark.parametrize("name", LEFT)
def test_epochs_in_flight_of_each_version_are_restored(name: str, subtasks: int) -> None:
    manifest = read_checkpoint(str(FIXTURES / name / "chk-1"))
    stage = Stages(redistribute(manifest.operators["uid"].subtasks, subtasks, 128))
    stage.finish_all()
    assert stage.emitted == LEFT[name]
