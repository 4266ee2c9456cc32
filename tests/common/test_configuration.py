from __future__ import annotations

import copy
import pickle
from datetime import timedelta

import pytest
from tidegate.common import ConfigOption, ConfigOptions, Configuration, Duration
from tidegate.common.errors import ConfigurationError

DELAY = ConfigOptions.key("some.delay").duration_type().default_value(Duration.of_seconds(1))
SIZE = ConfigOptions.key("some.size").memory_type().default_value(0)
MODE = ConfigOptions.key("some.mode").choice_type("EXACTLY_ONCE", "AT_LEAST_ONCE").no_default_value()
LABELS = ConfigOptions.key("some.labels").map_type().no_default_value()


def test_values_read_back_with_the_type_they_were_set_with() -> None:
    conf = Configuration()
    conf.set_string("str", "v1").set_integer("int", 2).set_boolean("bool", True)
    conf.set_float("float", 0.5).set_bytearray("bytes", bytearray([0, 1, 2]))
    assert conf.get_string("str", "") == "v1"
    assert conf.get_integer("int", 0) == 2
    assert conf.get_boolean("bool", False) is True
    assert conf.get_float("float", 0.0) == 0.5
    assert conf.get_bytearray("bytes", bytearray()) == bytearray([0, 1, 2])


def test_a_key_that_is_not_set_reads_as_the_default() -> None:
    conf = Configuration()
    assert conf.get_string("k", "d") == "d"
    assert conf.get_integer("k", 3) == 3
    assert conf.get_boolean("k", True) is True
    assert conf.get_float("k", 0.25) == 0.25
    assert conf.get_bytearray("k", bytearray(b"d")) == bytearray(b"d")
    assert conf.get(DELAY) == Duration.of_seconds(1)
    assert conf.get(MODE) is None


def test_to_dict_writes_texts_that_read_back_as_the_same_values() -> None:
    conf = Configuration()
    conf.set_string("s", "v1").set_integer("i", 1).set_float("f", 1.2).set_boolean("b", True)
    conf.set_bytearray("y", bytearray(b"\x00\x01")).set(DELAY, Duration.of_minutes(5))
    conf.set(LABELS, {"a": "1", "b c": "x,y:z'", "d": ""})
    texts = conf.to_dict()
    assert texts == {
        "s": "v1",
        "i": "1",
        "f": "1.2",
        "b": "true",
        "y": "AAE=",
        "some.delay": "5 min",
        "some.labels": "a:1,'b c':'x,y:z''',d:''",
    }
    read = Configuration()
    for key, text in texts.items():
        read.set_string(key, text)
    assert read == conf
    assert read.get_integer("i", 0) == 1
    assert read.get_float("f", 0.0) == 1.2
    assert read.get_boolean("b", False) is True
    assert read.get_bytearray("y", bytearray()) == bytearray(b"\x00\x01")
    assert read.get(DELAY) == Duration.of_minutes(5)
    assert read.get(LABELS) == {"a": "1", "b c": "x,y:z'", "d": ""}


def test_copies_do_not_share_settings() -> None:
    original = Configuration().set_string("k", "v")
    copies = [
        Configuration(original),
        copy.deepcopy(original),
        pickle.loads(pickle.dumps(original)),
    ]
    assert copies == [original] * 3
    assert {hash(each) for each in copies} == {hash(original)}
    original.set_string("k", "w")
    assert all(each.get_string("k", "") == "v" for each in copies)
    assert copies[0] != original


def test_keys_are_listed_added_with_a_prefix_and_removed() -> None:
    conf = Configuration().set_string("a", "1").set_integer("b", 2)
    target: dict[str, object] = {"z": 0}
    conf.add_all_to_dict(target)
    assert target == {"z": 0, "a": "1", "b": 2}
    assert conf.key_set() == {"a", "b"}
    assert str(conf) == "{a=1, b=2}"
    conf.add_all(Configuration().set_string("a", "9")).add_all(Configuration(conf), "x.")
    assert conf.to_dict() == {"a": "9", "b": "2", "x.a": "9", "x.b": "2"}
    assert conf.contains_key("x.a")
    assert conf.remove_config("x.a") is True
    assert conf.remove_config("x.a") is False
    assert not conf.contains_key("x.a")


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("10 s", 10 * 10**9),
        ("10s", 10 * 10**9),
        (" 5 min ", 300 * 10**9),
        ("5 m", 300 * 10**9),
        ("2 hours", 7_200 * 10**9),
        ("1 day", 86_400 * 10**9),
        ("250", 250 * 10**6),
        ("200 millis", 200 * 10**6),
        ("1 Seconds", 10**9),
        ("7 µs", 7_000),
        ("9 nanos", 9),
        ("0 ms", 0),
    ],
)
def test_durations_are_read_in_flinks_units(text: str, nanos: int) -> None:
    conf = Configuration().set_string("some.delay", text)
    assert conf.get(DELAY) == Duration.of_nanos(nanos)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Duration.of_millis(0), "0 ms"),
        (Duration.of_millis(1500), "1500 ms"),
        (Duration.of_hours(48), "2 d"),
        (Duration.of_nanos(1_000), "1 µs"),
        (timedelta(minutes=3), "3 min"),
    ],
)
def test_durations_are_written_in_the_largest_unit_that_fits(value: Duration, text: str) -> None:
    conf = Configuration().set(DELAY, value)
    assert conf.to_dict() == {"some.delay": text}


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("20kb", 20_480),
        ("32MB", 32 << 20),
        ("1 g", 1 << 30),
        ("4096", 4096),
        ("2 tebibytes", 2 << 40),
    ],
)
def test_sizes_are_read_in_powers_of_1024(text: str, size_bytes: int) -> None:
    assert Configuration().set_string("some.size", text).get(SIZE) == size_bytes


@pytest.mark.parametrize("text", ["at_least_once", "AT-LEAST-ONCE", "AtLeastOnce"])
def test_choices_are_read_without_regard_to_case_and_hyphens(text: str) -> None:
    assert Configuration().set_string("some.mode", text).get(MODE) == "AT_LEAST_ONCE"


@pytest.mark.parametrize(
    ("option", "text", "example"),
    [
        (DELAY, "10 parsecs", "10 s"),
        (DELAY, "-1 s", "10 s"),
        (DELAY, "1.5 s", "10 s"),
        (DELAY, "", "10 s"),
        (SIZE, "20 kilos", "20kb"),
        (MODE, "twice", "EXACTLY_ONCE"),
        (LABELS, "a:1,b", "key1:value1,key2:value2"),
        (LABELS, "a:1,", "key1:value1,key2:value2"),
        (ConfigOptions.key("some.int").int_type().default_value(1), "four", "4"),
        (ConfigOptions.key("some.float").float_type().default_value(1.0), "a half", "1.5"),
        (ConfigOptions.key("some.bool").boolean_type().default_value(True), "yes", "true"),
    ],
)
def test_a_bad_text_is_an_error_with_key_text_and_example(
    option: ConfigOption[object], text: str, example: str
) -> None:
    conf = Configuration().set_string(option.key, text)
    with pytest.raises(ConfigurationError) as caught:
        conf.get(option)
    assert option.key in str(caught.value)
    assert repr(text) in str(caught.value)
    assert example in str(caught.value)


def test_a_value_of_the_wrong_type_is_refused_when_it_is_set() -> None:
    conf = Configuration()
    with pytest.raises(ConfigurationError, match="k is set to 'many', which is not an integer"):
        conf.set_integer("k", "many")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="k is set to True, which is not an integer"):
        conf.set_integer("k", True)
    with pytest.raises(ConfigurationError, match="k is set to 1, which is not a truth value"):
        conf.set_boolean("k", 1)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=DELAY.key):
        conf.set(DELAY, Duration.of_millis(-1))
    with pytest.raises(ConfigurationError, match=SIZE.key):
        conf.set(SIZE, -1)
    assert conf.to_dict() == {}


def test_a_configuration_can_be_made_of_a_dict() -> None:
    made = Configuration.from_dict({"a": "1", "b": 2})
    assert made.get_integer("a", 0) == 1
    assert made.to_dict() == {"a": "1", "b": "2"}


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", []),
        (None, []),
        ("a;b", ["a", "b"]),
        ("['file:///a.py', b]", ["file:///a.py", "b"]),
        ("- a\n- 'b'\n", ["a", "b"]),
    ],
)
def test_the_text_of_a_list_is_split(text: str | None, parts: list[str]) -> None:
    assert Configuration.parse_list_value(text) == parts
