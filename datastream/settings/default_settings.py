"""The settings that `tidegate run` gives to the environments of a driver program.

Source of the precedence: Flink's `StreamContextEnvironment`, which merges the configuration of the program
over that of the command line.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from ...common.configuration import Configuration

logger = logging.getLogger(__name__)

_defaults: list[Configuration] = [Configuration()]


def current_defaults() -> Configuration:
    """What an environment starts with."""
    return _defaults[-1]


@contextmanager
def default_settings(configuration: Configuration) -> Iterator[None]:
    """While this is open, every new environment starts with these settings."""
    _defaults.append(configuration)
    try:
        yield
    finally:
        _defaults.pop()


def warn_about_overridden(configuration: Configuration) -> None:
    """Say which settings of `tidegate run` the program has replaced: it would be hard to see otherwise."""
    chosen = configuration.to_dict()
    for key, value in current_defaults().to_dict().items():
        if chosen.get(key) != value:
            logger.warning(
                "The program sets %s to %r, which goes before the %r of `tidegate run`",
                key,
                chosen.get(key),
                value,
            )
