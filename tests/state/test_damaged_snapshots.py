"""Readers of snapshots detect every damaged, truncated or missing file."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from tidegate.common.errors import CorruptCheckpointError
from tidegate.state import read_snapshot

from .checkpoints import UID, Job, totals


def damaged(tmp_path: Path) -> tuple[str, Path]:
    job = Job(tmp_path, parallelism=1)
    totals(job, range(2_000))
    path = job.checkpoint()
    (file,) = (tmp_path / "shared").rglob("*.parquet")
    return path, file


@pytest.mark.parametrize("part", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_flipped_byte_anywhere_is_noticed(tmp_path: Path, part: float) -> None:
    path, file = damaged(tmp_path)
    data = bytearray(file.read_bytes())
    data[int(part * len(data))] ^= 1
    file.write_bytes(data)
    snapshot = read_snapshot(path)
    message = (
        r"operator 'Totals' \(uid totals-uid\), state 'total': checkpoint file .*SHA-256.*restore another"
    )
    with pytest.raises(CorruptCheckpointError, match=message):
        list(snapshot.state(UID, "total").iter_batches())
    with pytest.raises(CorruptCheckpointError, match=message):
        snapshot.verify()


def test_a_flipped_byte_in_the_pages_of_a_key_is_noticed_by_its_reader(tmp_path: Path) -> None:
    path, file = damaged(tmp_path)
    data = bytearray(file.read_bytes())
    for position in range(len(data) // 4, len(data) // 2):
        data[position] ^= 1
    file.write_bytes(data)
    with pytest.raises(CorruptCheckpointError, match=r"operator 'Totals'.*state 'total'.*restore another"):
        read_snapshot(path).keyed_state(UID, "total").get(7)


@pytest.mark.parametrize("from_end", [1, 5, 9, 100, 700])
def test_a_flipped_byte_in_the_footer_is_noticed_by_the_reader_of_a_key(
    tmp_path: Path, from_end: int
) -> None:
    path, file = damaged(tmp_path)
    data = bytearray(file.read_bytes())
    data[-from_end] ^= 1
    file.write_bytes(data)
    with pytest.raises(CorruptCheckpointError, match=r"state 'total'.*footer does not match"):
        read_snapshot(path).keyed_state(UID, "total").get(7)


def test_truncated_and_missing_files_are_noticed(tmp_path: Path) -> None:
    path, file = damaged(tmp_path)
    data = file.read_bytes()
    state = read_snapshot(path).keyed_state(UID, "total")
    file.write_bytes(data[:-1])
    for read in (state.to_arrow, lambda: state.get(1), state.verify):
        with pytest.raises(CorruptCheckpointError, match=r"state 'total'.*bytes instead of"):
            read()
    file.unlink()
    for read in (state.to_arrow, lambda: state.get(1), state.verify):
        with pytest.raises(CorruptCheckpointError, match=r"state 'total'.*missing"):
            read()


def test_a_damaged_manifest_and_one_of_a_newer_format_are_refused(tmp_path: Path) -> None:
    path, _ = damaged(tmp_path)
    manifest = Path(path) / "MANIFEST"
    data = manifest.read_bytes()
    manifest.write_bytes(data.replace(b"flights", b"flightz"))
    with pytest.raises(CorruptCheckpointError, match="its checksum does not match"):
        read_snapshot(path)
    manifest.write_bytes(data.replace(b"tidegate-checkpoint 1", b"tidegate-checkpoint 3", 1))
    with pytest.raises(CorruptCheckpointError, match="format 3"):
        read_snapshot(path)


def test_reading_changes_nothing(tmp_path: Path) -> None:
    path, _ = damaged(tmp_path)

    def everything() -> dict[Path, str]:
        files = (file for file in tmp_path.rglob("*") if file.is_file())
        return {file: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}

    before = everything()
    state = read_snapshot(path).keyed_state(UID, "total")
    state.to_pandas()
    state.get(1)
    assert everything() == before
