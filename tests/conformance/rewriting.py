"""Turns a test module of PyFlink into one that tests `tidegate`, on its syntax tree.

What changes, and nothing else:

* Imports of `pyflink` become look-ups in `tidegate`. A name that is missing there is replaced by a
  placeholder, so that only the tests that use it fail, and say so.
* PyFlink's own test utilities, and the few Java helpers they are made of, come from `stand_ins`.
* Wrapping a Java object in its Python class, such as `Configuration(j_configuration=…)` or
  `WatermarkStrategy(jvm…)`, hands on the object: here there is nothing to wrap.

A test that asks a Java object for an answer cannot run without a JVM; `JvmRules` finds these by what they
name, before anything runs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

STAND_INS = "stand_ins"

# Modules whose names are test utilities or Java helpers; everything from them comes from `stand_ins`.
_UTILITY_MODULES = (
    "pyflink.datastream.tests",
    "pyflink.find_flink_home",
    "pyflink.java_gateway",
    "pyflink.pyflink_gateway_server",
    "pyflink.testing",
    "pyflink.util",
    "py4j",
)
# Java classes that are utilities of PyFlink's tests; `stand_ins` has a Python class for each.
JAVA_STAND_INS = (
    "org.apache.flink.api.common.eventtime.WatermarkStrategy.forGenerator",
    "org.apache.flink.python.util.PartitionCustomTestMapFunction",
    "org.apache.flink.streaming.api.functions.python.eventtime.PerElementWatermarkGenerator.getSupplier",
)
# What a test names if it asks the JVM. Private functions of PyFlink convert to and from Java objects.
_JVM_NAMES = {
    "_find_flink_source_root": "looks for Flink's jars",
    "_from_j_state_backend": "converts Java objects",
    "_from_java_type": "converts Java objects",
    "_load_specific_flink_module_jars": "loads jars of Java connectors",
    "get_field_value": "reads fields of Java objects",
    "get_gateway": "asks the Java gateway",
    "get_log_dir": "reads the log files of Beam workers",
    "invoke_java_object_method": "calls Java objects",
    "is_instance_of": "asks for Java classes",
    "java_class": "compares with a Java class",
    "load_java_class": "loads Java classes",
    "SourceFunction": "names a source written in Java",
    "to_java_data_structure": "converts to Java objects",
    "to_jarray": "makes Java arrays",
}
_JAVA_METHODS = {"get_java_function", "get_java_object", "get_java_type_info"}


def rewritten(source: str, filename: str) -> ast.Module:
    """The module's syntax tree, ready to be compiled."""
    tree = ast.parse(source, filename)
    tree = _Rewriter().visit(tree)
    start = ast.parse(f"import {STAND_INS}").body
    at = next(
        (
            number + 1
            for number, statement in enumerate(tree.body)
            if isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
        ),
        0,
    )
    tree.body[at:at] = start
    return ast.fix_missing_locations(tree)


class _Rewriter(ast.NodeTransformer):
    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | list[ast.AST]:
        module = node.module or ""
        if module.split(".")[0] not in ("pyflink", "py4j"):
            return node
        is_utility = module.startswith(_UTILITY_MODULES)
        call = f"{STAND_INS}.utility" if is_utility else f"{STAND_INS}.imported"
        return [
            ast.parse(f"{alias.asname or alias.name} = {call}({module!r}, {alias.name!r})").body[0]
            for alias in node.names
        ]

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name == "get_j_env_configuration" and isinstance(node.args[0], ast.Attribute):
            return ast.Call(_stand_in("settings_of"), [node.args[0].value], [])
        if name == "Configuration" and [key.arg for key in node.keywords] == ["j_configuration"]:
            return node.keywords[0].value
        if name == "WatermarkStrategy" and len(node.args) == 1:
            return node.args[0]
        if name == "DataStream" and len(node.args) == 1:
            return _without_java_stream(node.args[0])
        return node


def _without_java_stream(node: ast.expr) -> ast.expr:
    """`stream._j_data_stream.map(f)` as `stream.map(f)`."""
    for part in ast.walk(node):
        inner = part.value if isinstance(part, ast.Attribute) else None
        if isinstance(inner, ast.Attribute) and inner.attr == "_j_data_stream":
            part.value = inner.value
    return node


def _stand_in(name: str) -> ast.Attribute:
    return ast.Attribute(ast.Name(STAND_INS, ast.Load()), name, ast.Load())


class JvmRules:
    """Tells which tests of a rewritten module cannot run without a JVM, and why."""

    def __init__(self, tree: ast.Module) -> None:
        self._functions: dict[str, ast.AST] = {}
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                for part in node.body:
                    if isinstance(part, ast.FunctionDef):
                        self._functions[f"{node.name}.{part.name}"] = part
            elif isinstance(node, ast.FunctionDef):
                self._functions[node.name] = node

    def reason(self, bases: list[str], test: str) -> str | None:
        """Why a test cannot run: for itself, its set-up, or a function of the module that it calls.

        Args:
            bases: names of its class and of the bases of that, nearest first.
            test: name of the method.
        """
        if "PythonAPICompletenessTestCase" in bases:
            return "compares with a Java class"
        pending, seen = [test, "setUp", "setUpClass"], set[int]()
        while pending:
            name = pending.pop()
            function = self._found(bases, name)
            if function is None or id(function) in seen:
                continue
            seen.add(id(function))
            reason = _jvm_reason(function)
            if reason is not None:
                return reason
            pending += _names(function)
        return None

    def _found(self, bases: list[str], name: str) -> ast.AST | None:
        for base in bases:
            if f"{base}.{name}" in self._functions:
                return self._functions[f"{base}.{name}"]
        return self._functions.get(name)


def _names(function: ast.AST) -> list[str]:
    called = [part.func for part in ast.walk(function) if isinstance(part, ast.Call)]
    own = [part.attr for part in called if isinstance(part, ast.Attribute) and _dotted(part.value) == "self"]
    return own + [part.id for part in called if isinstance(part, ast.Name)]


def _jvm_reason(function: ast.AST) -> str | None:
    names = {part.id for part in ast.walk(function) if isinstance(part, ast.Name)}
    attributes = {part.attr for part in ast.walk(function) if isinstance(part, ast.Attribute)}
    java_attributes = sorted(name for name in attributes if name.startswith("_j_") or name in _JAVA_METHODS)
    if java_attributes:
        return f"reads `{java_attributes[0]}`, a Java object"
    for call in _calls_with_java_keywords(function):
        return f"passes `{call}`, a Java object"
    if names & {"StreamTableEnvironment", "DataTypes", "EnvironmentSettings"}:
        return "uses the Table API"
    for name in sorted(names & set(_JVM_NAMES)):
        if name != "get_gateway" or not _asks_stand_ins_only(function):
            return _JVM_NAMES[name]
    return None


def _calls_with_java_keywords(function: ast.AST) -> Iterator[str]:
    for part in ast.walk(function):
        if isinstance(part, ast.Call):
            for keyword in part.keywords:
                if keyword.arg is not None and keyword.arg.startswith("j_"):
                    yield keyword.arg


def _asks_stand_ins_only(function: ast.AST) -> bool:
    asked = [_dotted(part) for part in ast.walk(function) if isinstance(part, ast.Attribute)]
    paths = [path.partition("org.apache.flink")[2] for path in asked if "org.apache.flink." in path]
    known = [path.removeprefix("org.apache.flink") for path in JAVA_STAND_INS]
    return bool(paths) and all(any(whole.startswith(path) for whole in known) for path in paths)


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""
