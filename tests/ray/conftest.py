"""The workers of the cluster cannot import test modules: their functions travel by value."""

from __future__ import annotations

import cloudpickle
import pytest


@pytest.fixture
def on_ray(request: pytest.FixtureRequest, ray_cluster: object) -> None:
    """The session's cluster, for a test module that imports `jobs`."""
    for module in (request.module, request.module.jobs):
        cloudpickle.register_pickle_by_value(module)
