"""The three ways in which Flink writes the names of a document."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


def _dashed(name: str) -> str:
    return name.replace("_", "-")


class Plain(BaseModel):
    """A document whose names have underscores."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Dashed(BaseModel):
    """A document whose names have dashes."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=_dashed, populate_by_name=True)


class Camel(BaseModel):
    """A document whose names are in camel case."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)
