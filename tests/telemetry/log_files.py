"""The log files of a job."""

from __future__ import annotations

from pathlib import Path

from tidegate.telemetry.logs import parse_file_name


def log_files(directory: str, job_id: str) -> list[Path]:
    """The log files of a job in a directory, sorted by process, and the oldest of a process first."""
    found = []
    for path in Path(directory).glob(f"tidegate-{job_id}-*.log*"):
        known = parse_file_name(path.name)
        if known is not None and known.job_id == job_id:
            found.append((known.role, known.process_id, -known.age, path))
    return [path for *_, path in sorted(found)]
