"""Holds what an operator emits to the types that the program declared for its outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..common.errors import OutputTypeError
from ..common.type_system.type_conversion import Converter, WrongValueError, converter_of, shortened
from ..common.typeinfo import TypeInformation
from ..protocol.elements import Batch

if TYPE_CHECKING:
    from .output import Emit


@dataclass(frozen=True)
class OutputTypes:
    """The declared types of an operator's outputs.

    Attributes:
        main: type of the main output, or None where none was declared.
        sides: types of side outputs, by the id of their tag.
        declared_at: file and line of the operator in the user's program.
    """

    main: TypeInformation | None = None
    sides: Mapping[str, TypeInformation] = field(default_factory=dict)
    declared_at: str = ""


def typed(emit: Emit, type_info: TypeInformation | None, what: str, declared_at: str) -> Emit:
    """An `emit` that first brings every batch to a type.

    Values that already have it go on in the batch they came in. Arrow batches have their own schema and are
    not looked at.

    Args:
        emit: where batches go.
        type_info: the declared type; with None, or a type that takes anything, `emit` itself is returned.
        what: what emits, for errors: `operator Map (1/2)`, or one of its side outputs.
        declared_at: file and line of the operator in the user's program.

    Returns:
        A function that raises `OutputTypeError` for a value of another type.
    """
    convert = None if type_info is None else converter_of(type_info)
    if convert is None:
        return emit

    def emit_typed(batch: Batch) -> None:
        try:
            converted = batch.converted(convert)
        except WrongValueError as error:
            raise _type_error(convert, batch.rows(), error, what, declared_at) from None
        emit(converted)

    return emit_typed


def declared_records(values: Sequence[Any], type_info: TypeInformation, what: str) -> list[Any]:
    """The records of a collection with a declared type.

    As in PyFlink, an integer that does not fit keeps its low bits; there is a warning.

    Raises:
        OutputTypeError: a record has another type.
    """
    convert = converter_of(type_info, wraps_integers=True)
    if convert is None:
        return list(values)
    try:
        return list(convert(values))
    except WrongValueError as error:
        raise _type_error(convert, values, error, what, "") from None


def _type_error(
    convert: Converter, values: Sequence[Any], error: WrongValueError, what: str, declared_at: str
) -> OutputTypeError:
    """The error with the first record that is wrong, found by converting them one by one."""
    record = None
    for value in values:
        try:
            convert([value])
        except WrongValueError as first:
            error, record = first, value
            break
    at = f" ({declared_at})" if declared_at else ""
    return OutputTypeError(
        f"{what}{at} emitted {error.reason}. The record is {shortened(record)}; return another one, or "
        f"declare the type that it has"
    )
