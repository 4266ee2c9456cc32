"""The identity of a job (name of `pyflink.common.job_id`)."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from .errors import ConfigurationError

__all__ = ["JobID"]

_SIZE_BYTES = 16


@dataclass(frozen=True)
class JobID:
    """Sixteen bytes that tell one job from every other, written as 32 hexadecimal digits.

    Args:
        text: 32 hexadecimal digits in lower case.

    Raises:
        ConfigurationError: the text has another form.
    """

    text: str

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[0-9a-f]{32}", self.text):
            raise ConfigurationError(
                f"{self.text!r} is not a job id; it needs 32 hexadecimal digits in lower case, "
                "as printed when the job was started"
            )

    @staticmethod
    def generate() -> JobID:
        """Return a new random id."""
        return JobID(os.urandom(_SIZE_BYTES).hex())

    def __str__(self) -> str:
        return self.text
