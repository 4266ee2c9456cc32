"""Rows with names, made of the tuples that functions return."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from tidegate import Configuration, StreamExecutionEnvironment, Types
from tidegate.common.errors import TidegateError

PERSON = Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.INT()])


def words(text: str) -> Iterable[str]:
    return text.split()


def main(target: str) -> None:
    env = StreamExecutionEnvironment(Configuration().set_string("execution.target", target))
    people = env.from_collection([("Alice", 11), ("Bob", 12)], type_info=PERSON)
    older = people.map(lambda person: (person.name, person.age + 1), output_type=PERSON)
    print(older.get_type())
    print(*older.execute_and_collect())

    print(env.from_collection(["to be"]).flat_map(words).get_type())

    wrong = env.from_collection([1]).map(lambda number: print("forgot to return"), output_type=Types.INT())
    try:
        list(wrong.execute_and_collect())
    except TidegateError as error:
        print(str(error).splitlines()[0])


if __name__ == "__main__":
    main(*sys.argv[1:] or ["local"])
