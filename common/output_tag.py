"""Names a side output (PyFlink's `OutputTag`)."""

from __future__ import annotations

from .errors import ConfigurationError
from .typeinfo import TypeInformation

__all__ = ["OutputTag"]

__all__ = ["OutputTag"]


class OutputTag:
    """A side output of an operator, by its id.

    A process function sends to it with `yield tag, value`; `DataStream.get_side_output(tag)` reads it.

    Args:
        tag_id: Id of the side output; it is what counts, so two tags with one id are equal.
        type_info: Type of its records, if known.

    Raises:
        ConfigurationError: The id is empty or not a string.
    """

    was_used = False
    """Whether this process has ever had a tag: without one, no result can be for a side output."""

    def __init__(self, tag_id: str, type_info: TypeInformation | None = None) -> None:
        if not isinstance(tag_id, str) or not tag_id:
            raise ConfigurationError(f"an OutputTag needs a non-empty string as its id, not {tag_id!r}")
        OutputTag.was_used = True
        self.tag_id = tag_id
        self.type_info = type_info

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OutputTag) and self.tag_id == other.tag_id

    def __hash__(self) -> int:
        return hash(self.tag_id)

    def __repr__(self) -> str:
        return f"OutputTag({self.tag_id!r})"

    def __reduce__(self) -> tuple[type, tuple[str, TypeInformation | None]]:
        return OutputTag, (self.tag_id, self.type_info)
