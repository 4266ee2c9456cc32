"""The workers of the cluster cannot import test modules: their functions travel by value."""

from __future__ import annotations

import sys

import cloudpickle
import pytest


@pytest.fixture(autouse=True)
def functions_travel_by_value(request: pytest.FixtureRequest, ray_cluster: object) -> None:
    for module in (request.module, sys.modules[f"{request.module.__package__}.jobs"]):
        cloudpickle.register_pickle_by_value(module)
