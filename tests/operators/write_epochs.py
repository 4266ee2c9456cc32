"""Writes `fixtures/epochs-<version>`: a checkpoint of a stage with epochs in flight, by this release.

    python -m tests.operators.write_epochs

Run it once, when the stored format of epochs gets a new version, and commit the result. A fixture that exists
is never written again. Version 1 was written by the same steps, with the one subtask that a stage had then.
"""

from __future__ import annotations

from pathlib import Path

from tidegate.protocol.checkpoints.manifest import CheckpointManifest, OperatorManifest, encode_manifest
from tidegate.protocol.elements import SnapshotKind
from tidegate.protocol.ids import CheckpointId
from tidegate.state.operator.epoch_tables import FORMAT_VERSION
from tidegate.state.storage.stored_checkpoint import MANIFEST_NAME

from .test_epoch_stage import Stages

FIXTURES = Path(__file__).parent / "fixtures"


def main() -> None:
    stage = Stages()
    stage.start()
    for index, numbers in enumerate([(0, 1, 2), (3, 4, 5)]):
        stage.subtasks[index].process([(number,) for number in numbers])
    stage.deliver()
    stage.subtasks[0].process([(9,)])
    stage.finish(1)
    stage.deliver_messages()
    for each in stage.subtasks:
        each.processing_time.run_due()
    stage.subtasks[1].process([(7,)])
    snapshots = tuple(stage.checkpoint(1))
    manifest = CheckpointManifest(
        "job-1",
        "flights",
        CheckpointId(1),
        SnapshotKind.CHECKPOINT,
        1_000,
        1_200,
        {"uid": OperatorManifest("uid", "Totals", 128, snapshots)},
    )
    path = FIXTURES / f"epochs-{FORMAT_VERSION}" / "chk-1" / MANIFEST_NAME
    path.parent.mkdir(parents=True)
    path.write_bytes(encode_manifest(manifest))


if __name__ == "__main__":
    main()
