"""Finds what a restore of a checkpoint would unpickle. Reads the manifest only, and unpickles nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ...common.errors import ConfigurationError
from ...common.type_system.type_parser import type_from_text
from ...common.type_system.type_structure import every_type
from ...protocol.checkpoints.manifest import CheckpointManifest, OperatorManifest
from ..serializers.type_layouts import layout_of
from ..serializers.value_layouts import PickledLayout


@dataclass(frozen=True)
class PickledPlace:
    """A place in a checkpoint that a restore unpickles.

    Attributes:
        state: Name of the state; `None` if it is none.
        what: What is pickled there.
    """

    operator_uid: str
    operator_name: str
    state: str | None
    what: str

    def __str__(self) -> str:
        of_state = "" if self.state is None else f", state {self.state!r}"
        return f"operator {self.operator_name!r} (uid {self.operator_uid}){of_state}: {self.what}"


def pickled_places(manifest: CheckpointManifest) -> list[PickledPlace]:
    """Every place that a restore of a checkpoint unpickles, by operator."""
    return [place for operator in manifest.operators.values() for place in _of_operator(operator)]


def _of_operator(operator: OperatorManifest) -> Iterator[PickledPlace]:
    def place(state: str | None, what: str) -> PickledPlace:
        return PickledPlace(operator.uid, operator.name, state, what)

    schemas: dict[str, Mapping[str, object]] = {}
    for snapshot in operator.subtasks:
        schemas.update(snapshot.keyed.descriptors)
        schemas.update({handle.state_name: handle.schema for handle in snapshot.lists})
    for name, schema in sorted(schemas.items()):
        what = _pickled_part(str(schema.get("value_type", "")))
        if what is not None:
            yield place(name, what)
    if operator.coordinator is not None:
        yield place(None, "the source's enumerator")
    if any(snapshot.channels is not None for snapshot in operator.subtasks):
        yield place(None, "records in flight (an unaligned checkpoint)")


def _pickled_part(text: str) -> str | None:
    """What of the values of a type is pickled; `None` if nothing is."""
    if not text:
        return None
    try:
        type_info = type_from_text(text)
    except ConfigurationError:
        return f"perhaps values of the type {text}, which this release does not know"
    if isinstance(layout_of(type_info), PickledLayout):
        return "values without a declared type"
    if any(isinstance(layout_of(part), PickledLayout) for part in every_type(type_info)):
        return f"parts of its values without a declared type ({text})"
    return None
