"""pyarrow works without pandas until pandas is wanted, and then as if nothing had been."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

START = """
import sys

import pytest
import pytest
from tidegate.runtime.deferred_pandas import defer_pandas
defer_pandas()
import pyarrow as pa
pa.array([b"x"], type=pa.large_binary())
assert "pandas" not in sys.modules
"""
IMPORTED = """
import pandas as pd
assert pa.array(pd.Series([1.0, float("nan")])).null_count == 1
assert pd.__spec__.name == "pandas"
assert pd.__spec__.loader.get_source("pandas") and pd.__loader__ is pd.__spec__.loader
"""
ASKED_FOR = """
frame = pa.table({"a": [1, None]}).to_pandas()
assert frame["a"].isna().tolist() == [False, True]
assert pa.array(frame["a"]).null_count == 1
"""
IMPORTED_BEFORE = "import pandas\n"


def run(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_series_is_known_once_pandas_was_imported() -> None:
    run(START + IMPORTED)


def test_a_data_frame_is_there_for_the_asking() -> None:
    run(START + ASKED_FOR)


def test_pandas_that_was_imported_before_stays() -> None:
    start = START.replace('assert "pandas" not in', 'assert "pandas" in')
    run(IMPORTED_BEFORE + start + IMPORTED)


def test_other_threads_always_find_pandas() -> None:
    run(
        """
import sys, threading
from tidegate.runtime.deferred_pandas import _PandasFinder
sys.meta_path.insert(0, _PandasFinder())
def load():
    import pandas
thread = threading.Thread(target=load)
thread.start()
thread.join()
assert "pandas" in sys.modules
"""
    )


def test_a_local_job_goes_without_pandas_until_it_is_wanted() -> None:
    run(
        """
import sys

import pytest
import pyarrow as pa
from tidegate.common import Configuration
from tidegate.datastream import StreamExecutionEnvironment
settings = Configuration()
settings.set_string("execution.target", "local")
env = StreamExecutionEnvironment.get_execution_environment(settings)
env.from_collection([1]).map(lambda number: pa.array([number]).to_pylist()).print()
env.execute()
assert "pandas" not in sys.modules
"""
        + IMPORTED
    )
