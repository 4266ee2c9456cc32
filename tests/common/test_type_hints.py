"""Types of results are read from annotations where nobody declared them."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from tidegate.common import TypeInformation, Types
from tidegate.common.type_system.type_hints import element_type_of, result_type_of

if TYPE_CHECKING:
    from elsewhere import Unknown  # type: ignore[import-not-found]

T = TypeVar("T")


@dataclass
class Flight:
    tail: str


class Doubler:
    def __call__(self, value: int) -> float:
        return value * 2.0

    def map(self, value: int) -> list[str]:
        return [str(value)]


def plain(value: Any) -> tuple[str, int]:
    raise NotImplementedError


def silent(value: Any):  # type: ignore[no-untyped-def]
    raise NotImplementedError


def anything(value: Any) -> Any:
    raise NotImplementedError


def generic(value: T) -> T:
    return value


def unresolved(value: Any) -> Unknown:
    raise NotImplementedError


def nothing(value: Any) -> None:
    raise NotImplementedError


def optional(value: Any) -> str | None:
    raise NotImplementedError


def flight(value: Any) -> Flight:
    raise NotImplementedError


def _name(parameter: Any) -> str:
    """The same in each process, unlike the text of a function, which has its address."""
    named = parameter if hasattr(parameter, "__name__") else type(parameter)
    return named.__name__ if callable(parameter) else str(parameter)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (plain, Types.TUPLE([Types.STRING(), Types.LONG()])),
        (Doubler(), Types.DOUBLE()),
        (Doubler().map, Types.LIST(Types.STRING())),
        (functools.partial(plain, 1), Types.TUPLE([Types.STRING(), Types.LONG()])),
        (flight, Types.DATACLASS(Flight)),
        (optional, Types.STRING()),
        (str, Types.STRING()),
        (int, Types.LONG()),
        (silent, None),
        (anything, None),
        (generic, None),
        (unresolved, None),
        (nothing, None),
        (lambda value: value, None),
        (len, None),
        (object, None),
    ],
    ids=_name,
)
def test_the_type_of_a_result(function: Callable[..., Any], expected: TypeInformation | None) -> None:
    assert result_type_of(function) == expected


def iterable(value: Any) -> Iterable[int]:
    raise NotImplementedError


def iterator(value: Any) -> Iterator[int] | None:
    raise NotImplementedError


def generator(value: Any) -> Generator[int, None, None]:
    raise NotImplementedError


def listed(value: Any) -> list[int]:
    raise NotImplementedError


def tuples(value: Any) -> tuple[int, ...]:
    raise NotImplementedError


async def awaited(value: Any) -> list[int]:
    raise NotImplementedError


async def streamed(value: Any) -> AsyncIterator[int]:
    raise NotImplementedError
    yield 1


@pytest.mark.parametrize("function", [iterable, iterator, generator, listed, tuples, awaited, streamed])
def test_the_type_of_each_of_many_results(function: Callable[..., Any]) -> None:
    assert element_type_of(function) == Types.LONG()


@pytest.mark.parametrize("function", [plain, silent, anything, optional, str, list], ids=_name)
def test_a_function_that_does_not_say_what_it_yields(function: Callable[..., Any]) -> None:
    assert element_type_of(function) is None
