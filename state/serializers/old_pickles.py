"""Reads what files of format 1 pickled in states of a declared type, without running any code of it.

A pickle is a program for a stack machine. The one here knows the instructions that build data. Where a pickle
calls something, the machine only notes what, and a table turns the few notes that are data into values. So
there is nothing that a hostile pickle could call.
"""

from __future__ import annotations

import pickletools
import sys
from array import array
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from ...common.errors import CorruptCheckpointError, TidegateError
from ...common.time import Instant
from ...common.type_system.class_types import ClassTypeInfo
from ...common.type_system.type_structure import every_type
from ...common.typeinfo import TypeInformation
from ...common.types import Row, RowKind
from .encoded_values import encode_value
from .type_layouts import layout_of

_MOST_GROWTH = 100
"""Values for each byte of a pickle."""


def encoded_column(column: pa.ChunkedArray, type_info: TypeInformation, path: str) -> pa.ChunkedArray:
    """The pickles of a column of format 1, encoded as newer formats have them.

    Args:
        type_info: The declared type of its values, without the program's classes.
        path: Of the file, for error messages.

    Raises:
        CorruptCheckpointError: A pickle holds more than data.
    """
    if column.null_count == len(column):
        return column
    layout = layout_of(type_info)
    classes = {part.class_name for part in every_type(type_info) if isinstance(part, ClassTypeInfo)}

    def encoded(data: bytes | None) -> bytes | None:
        if data is None:
            return None
        try:
            value = _Notes(classes, _MOST_GROWTH * len(data)).value(_noted(data))
            return encode_value(None if value is None else layout.to_encoded(value))
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            raise _refused(path, f"it is damaged ({error})") from error
        except TidegateError as error:
            raise _refused(path, str(error)) from error

    return pa.chunked_array([pa.array(map(encoded, column.to_pylist()), pa.large_binary())])


def _refused(path: str, reason: str) -> CorruptCheckpointError:
    return CorruptCheckpointError(
        f"checkpoint file {path!r} has a pickle in a state of a declared type, as an older release wrote for "
        f"values that did not fit their column, and it cannot be read without running code: {reason}. If you "
        f"trust its origin, restore it with the release that wrote it, store such values in a state without "
        f"a declared type, and take a new savepoint"
    )


# ------------------------------------------------------------ the machine


@dataclass
class _Call:
    """What a pickle would call or create: noted, never done."""

    target: Any
    arguments: Any
    state: Any = None


@dataclass(frozen=True)
class _Global:
    """What a pickle would import: noted, never done."""

    name: str


@dataclass
class _Machine:
    stack: list[Any] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)

    def take(self, count: int) -> list[Any]:
        """The last values of the stack."""
        if count == 0:
            return []
        taken = self.stack[-count:]
        if len(taken) < count:
            raise ValueError("it takes more values than it has")
        del self.stack[-count:]
        return taken

    def marked(self) -> list[Any]:
        """The values since the last mark."""
        return self.take(len(self.stack) - self.marks.pop())


def _noted(data: bytes) -> Any:
    """What a pickle builds, with notes of what it would call."""
    machine = _Machine()
    for code, argument, _ in pickletools.genops(data):
        if code.name == "STOP":
            (value,) = machine.stack
            return value
        run = _INSTRUCTIONS.get(code.name)
        if run is None:
            raise ValueError(f"it has the instruction {code.name}")
        run(machine, argument)
    raise ValueError("it has no end")


def _push(machine: _Machine, value: Any) -> None:
    machine.stack.append(value)


def _extend(machine: _Machine, values: list[Any]) -> None:
    target = machine.stack[-1]
    if type(target) is not list:
        raise ValueError(f"it appends to {type(target).__name__}")
    target.extend(values)


def _set_items(machine: _Machine, parts: list[Any]) -> None:
    target = machine.stack[-1]
    if type(target) is not dict:
        raise ValueError(f"it sets items of {type(target).__name__}")
    target.update(zip(parts[::2], parts[1::2], strict=True))


def _add_items(machine: _Machine, _: Any) -> None:
    parts = machine.marked()
    target = machine.stack[-1]
    if type(target) is not set:
        raise ValueError(f"it adds items to {type(target).__name__}")
    target.update(parts)


def _global(machine: _Machine, _: Any) -> None:
    module, name = machine.take(2)
    _push(machine, _Global(f"{module}.{name}"))


def _call(machine: _Machine, _: Any) -> None:
    _push(machine, _Call(*machine.take(2)))


def _build(machine: _Machine, _: Any) -> None:
    (state,) = machine.take(1)
    target = machine.stack[-1]
    if not isinstance(target, _Call):
        raise ValueError(f"it sets the state of {type(target).__name__}")
    target.state = state


def _remember(machine: _Machine, number: Any) -> None:
    machine.memo[len(machine.memo) if number is None else number] = machine.stack[-1]


_INSTRUCTIONS: dict[str, Callable[[_Machine, Any], None]] = {
    "PROTO": lambda machine, _: None,
    "FRAME": lambda machine, _: None,
    "MARK": lambda machine, _: machine.marks.append(len(machine.stack)),
    "NONE": lambda machine, _: _push(machine, None),
    "NEWTRUE": lambda machine, _: _push(machine, True),
    "NEWFALSE": lambda machine, _: _push(machine, False),
    "EMPTY_TUPLE": lambda machine, _: _push(machine, ()),
    "EMPTY_LIST": lambda machine, _: _push(machine, []),
    "EMPTY_DICT": lambda machine, _: _push(machine, {}),
    # The names of the fields that were set, in the state of a pydantic model.
    "EMPTY_SET": lambda machine, _: _push(machine, set()),
    "ADDITEMS": _add_items,
    "TUPLE1": lambda machine, _: _push(machine, tuple(machine.take(1))),
    "TUPLE2": lambda machine, _: _push(machine, tuple(machine.take(2))),
    "TUPLE3": lambda machine, _: _push(machine, tuple(machine.take(3))),
    "TUPLE": lambda machine, _: _push(machine, tuple(machine.marked())),
    "APPEND": lambda machine, _: _extend(machine, machine.take(1)),
    "APPENDS": lambda machine, _: _extend(machine, machine.marked()),
    "SETITEM": lambda machine, _: _set_items(machine, machine.take(2)),
    "SETITEMS": lambda machine, _: _set_items(machine, machine.marked()),
    "STACK_GLOBAL": _global,
    "REDUCE": _call,
    "NEWOBJ": _call,
    "BUILD": _build,
    "MEMOIZE": _remember,
    "BINPUT": _remember,
    "LONG_BINPUT": _remember,
    "BINGET": lambda machine, number: _push(machine, machine.memo[number]),
    "LONG_BINGET": lambda machine, number: _push(machine, machine.memo[number]),
    **dict.fromkeys(
        [
            *("BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT"),
            *("SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"),
            *("SHORT_BINBYTES", "BINBYTES", "BINBYTES8", "BYTEARRAY8"),
        ],
        _push,
    ),
}

# ------------------------------------------------------------ from notes to values


class _Notes:
    """Turns what a pickle notes into values, if all of it is data.

    Args:
        classes: The classes of the declared type; their instances become rows of their attributes.
        most_values: How many values there may be: one that is repeated takes few bytes.
    """

    def __init__(self, classes: Collection[str], most_values: int) -> None:
        self._classes = classes
        self._left = most_values

    def value(self, noted: Any) -> Any:
        """A value without notes."""
        self._left -= 1
        if self._left < 0:
            raise ValueError("it expands to too many values")
        kind = type(noted)
        if kind in (list, tuple):
            return kind(map(self.value, noted))
        if kind is dict:
            return {self.value(key): self.value(entry) for key, entry in noted.items()}
        if kind is _Global:
            raise ValueError(f"it contains {noted.name}")
        return self._called(noted) if kind is _Call else noted

    def _called(self, call: _Call) -> Any:
        name = call.target.name if isinstance(call.target, _Global) else "something that it computes"
        if name in self._classes:
            return self._row(call.state)
        if name in _CLASS_FIRST:
            return _CLASS_FIRST[name](*map(self.value, call.arguments[1:]))
        if name == "numpy.dtype":
            return _numpy_type(self.value(call.arguments)[0], self.value(call.state)[1])
        if name == "tidegate.common.time.Instant":
            return Instant(**self.value(call.state))
        if name not in _DATA:
            raise ValueError(f"it calls {name}")
        return _DATA[name](*self.value(call.arguments))

    def _row(self, state: Any) -> Row:
        """An instance of a class, of the state that it was pickled with."""
        if isinstance(state, tuple):
            state = {**(state[0] or {}), **(state[1] or {})}
        if not isinstance(state, dict):
            raise ValueError("it contains an instance of a class with slots")
        model = state.get("__dict__")
        if isinstance(model, dict):
            private = state.get("__pydantic_private__") or {}
            state = {**model, **(state.get("__pydantic_extra__") or {}), **private}
        return Row(**self.value(state))


def _numpy_type(text: str, order: str) -> np.dtype[Any]:
    kind = np.dtype(f"{order}{text}" if order in "<>" else text)
    if kind.kind not in "biufcmM":
        raise ValueError(f"it contains an array of {kind}")
    return kind


def _numpy_scalar(kind: np.dtype[Any], data: bytes) -> Any:
    return np.frombuffer(data, kind)[0].item()


def _numpy_array(data: bytes, kind: np.dtype[Any], shape: tuple[int, ...], order: str) -> Any:
    return np.frombuffer(data, kind).reshape(shape, order="F" if order == "F" else "C").copy()


def _standard_array(typecode: str, machine_format: int, data: bytes) -> Any:
    # Formats with odd numbers have the highest byte first, except that of bytes with a sign.
    if sys.byteorder != "little" or (machine_format % 2 and machine_format != 1):
        raise ValueError(f"it contains an array in the machine format {machine_format}")
    found = array(typecode)
    found.frombytes(data)
    return found


def _row_of(fields: Any, values: Any, kind: int) -> Row:
    row = Row(*values)
    row.set_row_kind(RowKind(kind))
    if fields is not None:
        row.set_field_names(list(fields))
    return row


_CLASS_FIRST: dict[str, Callable[..., Any]] = {"array._array_reconstructor": _standard_array}
_DATA: dict[str, Callable[..., Any]] = {
    "datetime.date": date,
    "datetime.time": time,
    "datetime.datetime": datetime,
    "datetime.timedelta": timedelta,
    "datetime.timezone": timezone,
    "decimal.Decimal": Decimal,
    "tidegate.common.types._restore_row": _row_of,
    **{
        f"numpy.{core}.{name}": make
        for core in ("core", "_core")
        for name, make in (("multiarray.scalar", _numpy_scalar), ("numeric._frombuffer", _numpy_array))
    },
}
