"""The public test kit: harnesses for functions, and the deterministic simulation of whole jobs.

* `OneInputHarness` and its like run a user's function by hand, without a job around it.
* `verify_exactly_once` runs a user's job under crashes, and compares what comes out.
* `pytest_plugin` has fixtures; pytest finds it by itself.
* `PostgresServer` runs a PostgreSQL server for tests of jobs that read or write tables.
* `simulate` runs random jobs of its own under a seeded scheduler with virtual time: the real task runtime,
  coordinator and state backends.

Nothing here is imported by the runtime. The names below are loaded on first use, so that pytest starts
as fast with the plugin as without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..common.lazy_imports import lazy_attributes

if TYPE_CHECKING:
    from .harness import Harness, HarnessSnapshot
    from .harness_forms import (
        BroadcastHarness,
        KeyedBroadcastHarness,
        KeyedOneInputHarness,
        KeyedTwoInputHarness,
        OneInputHarness,
        TwoInputHarness,
    )
    from .postgres_server import PostgresServer
    from .verify import ExactlyOnceViolation, VerificationReport, verify_exactly_once

__all__ = [
    "BroadcastHarness",
    "ExactlyOnceViolation",
    "Harness",
    "HarnessSnapshot",
    "KeyedBroadcastHarness",
    "KeyedOneInputHarness",
    "KeyedTwoInputHarness",
    "OneInputHarness",
    "PostgresServer",
    "TwoInputHarness",
    "VerificationReport",
    "verify_exactly_once",
]

__getattr__ = lazy_attributes(
    __name__,
    {
        ".harness": ("Harness", "HarnessSnapshot"),
        ".harness_forms": (
            "BroadcastHarness",
            "KeyedBroadcastHarness",
            "KeyedOneInputHarness",
            "KeyedTwoInputHarness",
            "OneInputHarness",
            "TwoInputHarness",
        ),
        ".postgres_server": ("PostgresServer",),
        ".verify": ("ExactlyOnceViolation", "VerificationReport", "verify_exactly_once"),
    },
)
