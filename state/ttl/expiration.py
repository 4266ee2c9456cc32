"""What is expired as of one freeze of an operator's keyed state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..serializers.value_codecs import ValueCodec


@dataclass(frozen=True)
class Expiration:
    """By what time state expires, and how to decode values of which only a part does.

    Attributes:
        times_ms: Of each clock (`StateTtlConfig.clock_name`), in milliseconds. Nothing expires by a clock
            that is missing or `None`.
        codecs: Of the declared states by name. A list that its column does not hold element by element keeps
            its expired elements where there is no codec.
    """

    times_ms: Mapping[str, int | None] = field(default_factory=dict)
    codecs: Mapping[str, ValueCodec] = field(default_factory=dict)

    def time_of(self, schema: Mapping[str, object]) -> int | None:
        """By what time the entries of a state expire, in milliseconds; `None` if they do not."""
        return self.times_ms.get(str(schema.get("ttl")))
