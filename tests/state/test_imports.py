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


def test_the_name_of_flinks_backend_means_lmdb() -> None:
    from tidegate.state.lmdb_backend import LmdbStateBackend
    from tidegate.state.rocksdb_backend import EmbeddedRocksDBStateBackend

    assert issubclass(EmbeddedRocksDBStateBackend, LmdbStateBackend)
