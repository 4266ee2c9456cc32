"""The public test kit: harnesses for functions, and the deterministic simulation of whole jobs.

* `OneInputHarness` and its like run a user's function by hand, without a job around it.
* `verify_exactly_once` runs a user's job under crashes, and compares what comes out.
* `pytest_plugin` has fixtures; pytest finds it by itself.
* `simulate` runs random jobs of its own under a seeded scheduler with virtual time: the real task runtime,
  coordinator and state backends.

Nothing here is imported by the runtime. The names below are loaded on first use, so that pytest starts
as fast with the plugin as without.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

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
    "TwoInputHarness",
    "VerificationReport",
    "verify_exactly_once",
]

_HOME_OF = {
    "BroadcastHarness": ".harness_forms",
    "ExactlyOnceViolation": ".verify",
    "Harness": ".harness",
    "HarnessSnapshot": ".harness",
    "KeyedBroadcastHarness": ".harness_forms",
    "KeyedOneInputHarness": ".harness_forms",
    "KeyedTwoInputHarness": ".harness_forms",
    "OneInputHarness": ".harness_forms",
    "TwoInputHarness": ".harness_forms",
    "VerificationReport": ".verify",
    "verify_exactly_once": ".verify",
}


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home, __name__), name)
