"""Writes `docs/settings.md`: every setting, from its declaration in `common/*options.py`.

Name, type, default, bounds and older keys are the option's; the meaning is the text under its declaration. A
test compares the committed page with what this script would write. Run it with `make docs`.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

from tidegate.common.config_options import ConfigOption
from tidegate.common.options.options import GROUPS

PAGE = Path(__file__).parent / "settings.md"
TOP = """\
# Settings

Every setting has a key, mostly Flink's. In a program, set it with `Configuration.set_string(key, value)`, and
pass the configuration to `StreamExecutionEnvironment.get_execution_environment`. On the command line, use
`tidegate run -D key=value`. Unknown keys are rejected, with a suggestion.
[Checkpointing](checkpointing.md#settings-from-outside) describes where settings come from and how values are
written.

An empty default means that the setting has no value unless you set it. A setting is also read under its older
keys where its own key is not set.
"""


def _documented(group: type) -> Iterator[tuple[ConfigOption[object], str]]:
    """The options of a group, each with the text under its declaration."""
    (declared,) = ast.parse(dedent(inspect.getsource(group))).body
    assert isinstance(declared, ast.ClassDef)
    for statement, following in zip(declared.body, [*declared.body[1:], None]):
        if not isinstance(statement, ast.Assign):
            continue
        (name,) = statement.targets
        assert isinstance(name, ast.Name)
        match following:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield getattr(group, name.id), " ".join(text.split())
            case _:
                raise AssertionError(f"write what {group.__name__}.{name.id} means under its declaration")


def _row(option: ConfigOption[object], text: str) -> str:
    kind = option.type.noun.removeprefix("a ").removeprefix("an ")
    if kind.startswith("one of "):
        kind = "one of " + ", ".join(f"`{choice}`" for choice in kind.removeprefix("one of ").split(", "))
    default = "" if option.default in (None, "") else f"`{option.type.text(option.default)}`"
    bounds = [
        f"at {word} `{option.type.text(bound)}`"
        for word, bound in (("least", option.least), ("most", option.most))
        if bound is not None
    ]
    older = ", ".join(f"`{key}`" for key in option.deprecated_keys)
    meaning = text + (f" Older: {older}." if older else "")
    return f"| `{option.key}` | {', '.join([kind, *bounds])} | {default} | {meaning} |"


def page() -> str:
    """The page of all settings."""
    parts = [TOP]
    for group in GROUPS:
        title, _, text = inspect.cleandoc(group.__doc__ or "").partition("\n\n")
        rows = [_row(option, meaning) for option, meaning in _documented(group)]
        table = ["| setting | value | default | meaning |", "|---|---|---|---|", *rows]
        parts.append("\n".join([f"## {title.rstrip('.')}", "", text, "", *table, ""]))
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
