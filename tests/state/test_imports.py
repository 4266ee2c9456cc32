from __future__ import annotations

import subprocess
import sys


def test_declaring_state_loads_neither_arrow_nor_lmdb() -> None:
    program = (
        "import sys; import tidegate.state.backend, tidegate.state.rocksdb_backend, "
        "tidegate.state.live_backends, tidegate.state.kinds, "
        "tidegate.state.storage; "
        "print([name for name in ('pyarrow', 'lmdb', 'numpy') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_flinks_other_names_of_backends_mean_the_same_keyed_state() -> None:
    from tidegate.state.backend import HashMapStateBackend
    from tidegate.state.live_backends import FileSystemStateBackend, MemoryStateBackend
    from tidegate.state.lmdb_backend import LmdbStateBackend
    from tidegate.state.rocksdb_backend import EmbeddedRocksDBStateBackend

    for named, meant in (
        (MemoryStateBackend(), HashMapStateBackend()),
        (FileSystemStateBackend(), HashMapStateBackend()),
        (EmbeddedRocksDBStateBackend(), LmdbStateBackend()),
    ):
        assert type(named).create_keyed_backend is type(meant).create_keyed_backend
        assert vars(meant).items() <= vars(named).items()
