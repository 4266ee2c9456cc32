"""The short form of `make chaos`: real processes die, hang and find damage; the output is compared."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import cloudpickle
import pytest

from . import connections, faults, job, rounds


@pytest.fixture(autouse=True)
def _functions_travel_by_value(ray_cluster: object) -> Iterator[None]:
    """The workers of the cluster cannot import test modules."""
    for module in (job, connections, faults, rounds):
        cloudpickle.register_pickle_by_value(module)
    yield
    for module in (job, connections, faults, rounds):
        cloudpickle.unregister_pickle_by_value(module)


def test_the_output_is_exact_after_kills_cuts_a_hang_and_fail_points(tmp_path: Path) -> None:
    points = "commit_mid@sink:3:kill,after_manifest:3:raise,upload@count:8:enospc"
    names = ["kill-task", "cut-connections", "kill-coordinator", "cut-connections", "stop-task"]
    if not connections.can_cut():
        names = [name for name in names if name != "cut-connections"]
    outcome = rounds.faults_round(tmp_path, random.Random(1), names, points)
    assert (outcome.is_right, outcome.result) == (True, "exact")
    assert (outcome.done["connections"] > 0) is connections.can_cut(), outcome.done
    assert [event.what for event in outcome.events if "was not reached" in event.what] == []


def test_a_damaged_newest_checkpoint_is_an_error_and_an_older_one_loses_nothing(tmp_path: Path) -> None:
    outcome = rounds.damage_round(tmp_path, random.Random(2), faults.damage_manifest)
    assert outcome.is_right, outcome
    assert "MANIFEST is damaged" in outcome.events[-1].what
