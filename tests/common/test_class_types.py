from __future__ import annotations

import dataclasses
import enum
import pickle
import subprocess
import sys
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Literal, NewType, Optional, Union
from uuid import UUID

import cloudpickle
import pydantic
import pytest
from tidegate.common import Instant, TypeCodec, Types, register_type_codec
from tidegate.common.errors import ConfigurationError
from tidegate.common.type_system.type_parser import type_from_text
from tidegate.common.typeinfo import type_text


class Color(enum.Enum):
    RED = 1
    GREEN = 2


class Access(enum.Flag):
    READ = 1
    WRITE = 2


@dataclasses.dataclass
class Address:
    street: str
    number: int | None


@dataclasses.dataclass
class Person:
    kind: ClassVar[str] = "person"
    name: str
    address: Address
    friends: list[Person] = dataclasses.field(default_factory=list)
    tags: dict[str, float] = dataclasses.field(default_factory=dict)
    color: Color = Color.RED
    anything: object = None


class Order(pydantic.BaseModel):
    id: int
    items: list[tuple[str, int]]
    note: str | None
    paid: Decimal = Decimal(0)


class Money:
    def __init__(self, cents: int) -> None:
        self.cents = cents


class MoneyCodec(TypeCodec[Money]):
    name = "money"
    python_type = Money

    def encode(self, value: Money) -> bytes:
        return str(value.cents).encode()

    def decode(self, data: bytes) -> Money:
        return Money(int(data))


UserId = NewType("UserId", int)
HERE = __name__
OF: list[tuple[Any, str]] = [
    (str, "STRING"),
    (int, "LONG"),
    (float, "DOUBLE"),
    (bool, "BOOLEAN"),
    (bytes, "PRIMITIVE_ARRAY(BYTE)"),
    (Decimal, "BIG_DEC"),
    (date, "SQL_DATE"),
    (time, "SQL_TIME"),
    (datetime, "SQL_TIMESTAMP"),
    (Instant, "INSTANT"),
    (UUID, "CUSTOM(uuid)"),
    (timedelta, "CUSTOM(timedelta)"),
    (Optional[int], "LONG"),  # noqa: UP045
    (int | None, "LONG"),
    (Union[int, str], "PICKLED_BYTE_ARRAY"),  # noqa: UP007
    (list[str], "LIST(STRING)"),
    (dict[str, list[int]], "MAP(STRING, LIST(LONG))"),
    (tuple[int, str], "TUPLE(LONG, STRING)"),
    (tuple[int, ...], "PICKLED_BYTE_ARRAY"),
    (Annotated[int, "metres"], "LONG"),
    (Literal["a", "b"], "STRING"),
    (Literal["a", 1], "PICKLED_BYTE_ARRAY"),
    (UserId, "LONG"),
    (list, "PICKLED_BYTE_ARRAY"),
    (set[int], "PICKLED_BYTE_ARRAY"),
    (object, "PICKLED_BYTE_ARRAY"),
    (Any, "PICKLED_BYTE_ARRAY"),
    (Color, f"ENUM({HERE}.Color; RED, GREEN)"),
    (Access, "PICKLED_BYTE_ARRAY"),
    (Types.CHAR(), "CHAR"),
    (
        Person,
        f"DATACLASS({HERE}.Person; name: STRING, address: DATACLASS({HERE}.Address; street: STRING, "
        f"number?: LONG), friends?: LIST(PICKLED_BYTE_ARRAY), tags?: MAP(STRING, DOUBLE), "
        f"color?: ENUM({HERE}.Color; RED, GREEN), anything?: PICKLED_BYTE_ARRAY)",
    ),
    (
        Order,
        f"PYDANTIC({HERE}.Order; id: LONG, items: LIST(TUPLE(STRING, LONG)), note?: STRING, paid?: BIG_DEC)",
    ),
]


@pytest.mark.parametrize(("annotation", "text"), OF, ids=[str(case[0])[:40] for case in OF])
def test_an_annotation_gives_a_type_whose_text_can_be_read(annotation: Any, text: str) -> None:
    type_info = Types.of(annotation)
    assert type_text(type_info) == text
    assert type_text(type_from_text(text)) == text
    assert pickle.loads(pickle.dumps(type_info)) == type_info
    assert repr(type_info)


def test_classes_and_their_factories_agree() -> None:
    assert Types.DATACLASS(Person) == Types.of(Person)
    assert Types.PYDANTIC(Order) == Types.of(Order)
    assert Types.DATACLASS(Person).get_field_names()[:2] == ["name", "address"]
    assert Types.PYDANTIC(Order).get_field_types()[0] == Types.LONG()


def test_a_dataclass_inside_a_function_may_contain_itself() -> None:
    @dataclasses.dataclass
    class Node:
        children: list[Node]

    text = type_text(Types.of(Node))
    assert text.endswith('<locals>.Node"; children: LIST(PICKLED_BYTE_ARRAY))')
    assert type_text(type_from_text(text)) == text


def test_a_type_read_from_a_text_imports_no_class() -> None:
    read = type_from_text("DATACLASS(no.such.module.Thing; a: LONG, b?: ENUM(no.such.Enum; X))")
    assert read.get_field_names() == ["a", "b"]  # type: ignore[attr-defined]
    assert read.python_class is None  # type: ignore[attr-defined]
    assert type_from_text("CUSTOM(money)").codec is None  # type: ignore[attr-defined]


def test_a_registered_codec_is_used_wherever_its_type_stands() -> None:
    class Weight:
        pass

    class WeightCodec(TypeCodec[Weight]):
        name = "weight in kg"

        def encode(self, value: Weight) -> bytes:
            return b""

        def decode(self, data: bytes) -> Weight:
            return Weight()

    assert type_text(Types.of(list[Weight])) == "LIST(PICKLED_BYTE_ARRAY)"
    register_type_codec(Weight, WeightCodec())
    assert type_text(Types.of(list[Weight])) == 'LIST(CUSTOM("weight in kg"))'


class Nameless(MoneyCodec):
    name = ""


@dataclasses.dataclass
class Unresolvable:
    field: NoSuchName  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Types.DATACLASS(Order), "made by @dataclass"),
        (lambda: Types.DATACLASS(Address("x", 1)), "made by @dataclass"),  # type: ignore[arg-type]
        (lambda: Types.PYDANTIC(Address), "pydantic.BaseModel"),
        (lambda: Types.CUSTOM(MoneyCodec), "an instance of a TypeCodec"),  # type: ignore[arg-type]
        (lambda: Types.CUSTOM(Nameless()), "needs a name"),
        (lambda: register_type_codec("Money", MoneyCodec()), "needs a class"),  # type: ignore[arg-type]
        (lambda: register_type_codec(Money, Nameless()), "with a name"),
        (lambda: Types.of(Unresolvable), "NoSuchName.*module level"),
    ],
)
def test_a_wrong_declaration_of_a_class_is_refused(build: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        build()


def test_dataclasses_do_not_import_pydantic() -> None:
    program = (
        "import sys, dataclasses; from tidegate.common import Types\n"
        "class Plain: pass\n"
        "A = dataclasses.make_dataclass('A', [('x', int), ('y', Plain)]); Types.of(A)\n"
        "assert 'pydantic' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_class_that_travels_by_value_has_the_same_fields() -> None:
    @dataclasses.dataclass
    class Stop:
        name: str
        minutes: float = 0.0
        lines: list[str] = dataclasses.field(default_factory=list)

    program = (
        "import pickle, sys\nfrom tidegate.common import Types\n"
        "from tidegate.common.typeinfo import type_text\n"
        "print(type_text(Types.of(pickle.load(sys.stdin.buffer))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], input=cloudpickle.dumps(Stop), capture_output=True, check=True
    )
    fields = "; name: STRING, minutes?: DOUBLE, lines?: LIST(STRING))"
    assert type_text(Types.of(Stop)).endswith(fields)
    assert done.stdout.decode().strip().endswith(fields)
