"""Settings that say where a job's own processes run."""

from __future__ import annotations

import pytest
from tidegate.common import Configuration
from tidegate.common.errors import ConfigurationError
from tidegate.datastream.job_settings import job_settings
from tidegate.protocol.failover import NoRestart


def _placed(where: str) -> str:
    settings = Configuration()
    settings.set_string("tidegate.coordinator.placement", where)
    return job_settings(settings, NoRestart(), None).coordinator_placement


def test_a_coordinator_runs_on_the_head_anywhere_or_on_nodes_with_a_label() -> None:
    assert job_settings(Configuration(), NoRestart(), None).coordinator_placement == "head"
    assert [_placed(where) for where in ("any", "role=coordinators")] == ["any", "role=coordinators"]


@pytest.mark.parametrize("where", ["tail", "role=", "=value", ""])
def test_a_place_that_is_neither_is_refused(where: str) -> None:
    with pytest.raises(ConfigurationError, match=r"tidegate\.coordinator\.placement.*name=value"):
        _placed(where)
