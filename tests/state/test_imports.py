from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tidegate.common.typeinfo import Types
from tidegate.state.operator.list_files import encode_items, write_list_file
from tidegate.state.serializers.codecs import value_codec


def test_declaring_state_loads_neither_arrow_nor_lmdb() -> None:
    program = (
        "import sys; import tidegate.state.backend, tidegate.state.rocksdb_backend, "
        "tidegate.state.live_backends, tidegate.state.kinds, "
        "tidegate.state.storage.checkpoint_storage; "
        "print([name for name in ('pyarrow', 'lmdb', 'numpy') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_flinks_other_names_of_backends_mean_the_same_state() -> None:
    from tidegate.state.live_backends import FileSystemStateBackend, HashMapStateBackend, MemoryStateBackend
    from tidegate.state.lmdb_backend import LmdbStateBackend
    from tidegate.state.rocksdb_backend import EmbeddedRocksDBStateBackend

    for named, meant in (
        (MemoryStateBackend(), HashMapStateBackend()),
        (FileSystemStateBackend(), HashMapStateBackend()),
        (EmbeddedRocksDBStateBackend(), LmdbStateBackend()),
    ):
        assert type(named).create_keyed_backend is type(meant).create_keyed_backend
        assert type(named).create_operator_backend is type(meant).create_operator_backend
        assert vars(meant).items() <= vars(named).items()


def loaded(program: str, *names: str) -> list[str]:
    """Which of some modules a program has imported at its end."""
    tell = f"import sys; print(*(name for name in {names!r} if name in sys.modules))"
    command = [sys.executable, "-c", f"{program}\n{tell}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def test_checkpoints_on_a_disk_need_no_other_file_systems(tmp_path: Path) -> None:
    program = f"""
from tidegate.state.storage.filesystem_storage import FileSystemCheckpointStorage
for place in ({str(tmp_path)!r}, {f"file://{tmp_path}"!r}):
    storage = FileSystemCheckpointStorage(place)
    storage.write_file("a", b"1")
    assert storage.read("a") == b"1"
"""
    assert loaded(program, "fsspec") == []


def test_a_source_that_finds_its_positions_imports_no_functions_of_arrow(tmp_path: Path) -> None:
    stored = tmp_path / "positions"
    values = [{"start": number} for number in range(3)]
    items = encode_items(value_codec(Types.PICKLED_BYTE_ARRAY()), values)
    stored.write_bytes(write_list_file(items, "source", "positions", {}))
    program = f"""
from pathlib import Path
from tidegate.common.typeinfo import Types
from tidegate.state.serializers.codecs import value_codec
from tidegate.state.operator.list_files import decode_items, read_list_file

rows, _ = read_list_file(Path({str(stored)!r}).read_bytes(), "positions")
assert decode_items(value_codec(Types.PICKLED_BYTE_ARRAY()), rows)[1] == {values!r}
"""
    assert loaded(program, "pyarrow.compute", "pandas") == []
