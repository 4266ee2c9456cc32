"""Where a checkpoint and a job do not fit, and what each subtask gets when they do."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tidegate.common.errors import StateMigrationError
from tidegate.coordinator.restore.restore import check_restore, recovered_records, restored_state
from tidegate.protocol.checkpoints.handles import (
    ChannelRange,
    ChannelStateHandle,
    FileHandle,
    OperatorListHandle,
    OperatorSnapshot,
)
from tidegate.protocol.checkpoints.manifest import CheckpointManifest, OperatorManifest
from tidegate.protocol.checkpoints.redistribution import EVEN_SPLIT
from tidegate.protocol.elements import SnapshotKind
from tidegate.protocol.ids import CheckpointId, SubtaskId
from tidegate.protocol.key_groups import KeyGroupRange, key_group_range_of_subtask

from .fakes import job_graph, keyed_snapshot, position_handle


def stored() -> CheckpointManifest:
    """The totals of two subtasks, and two positions of the source."""
    totals = tuple(
        keyed_snapshot(FileHandle(f"file-{index}", 1, ""), key_group_range_of_subtask(index, 128, 2))
        for index in range(2)
    )
    positions = position_handle(7)
    operators = {
        "numbers": OperatorManifest("numbers", "Numbers", 128, (OperatorSnapshot(lists=(positions,)),)),
        "totals": OperatorManifest("totals", "Totals", 128, totals),
    }
    return CheckpointManifest("job", "flights", CheckpointId(7), SnapshotKind.CHECKPOINT, 1, 2, operators)


def test_the_job_that_wrote_a_checkpoint_can_restore_it() -> None:
    check_restore(job_graph(), stored(), allow_non_restored_state=False)


def test_state_that_no_operator_claims_is_an_error_that_names_it() -> None:
    expected = r"checkpoint 7 of job 'flights' holds state of 'Totals' \(uid totals\).*ignore-unclaimed-state"
    with pytest.raises(StateMigrationError, match=expected):
        check_restore(job_graph(uid="renamed"), stored(), allow_non_restored_state=False)


def test_an_operator_that_had_no_state_is_not_restored_and_one_with_an_empty_list_is() -> None:
    for lists, is_restored in (
        ((), False),
        ((OperatorListHandle("items", EVEN_SPLIT, {"kind": "list"}),), True),
    ):
        operators = {"totals": OperatorManifest("totals", "Totals", 128, (OperatorSnapshot(lists=lists),))}
        restored = restored_state(job_graph(), replace(stored(), operators=operators))
        assert any("totals" in by_uid for by_uid in restored.values()) == is_restored


def test_state_under_a_previous_uid_is_found() -> None:
    graph = job_graph(uid="sums", previous_uids=("never there", "totals"))
    check_restore(graph, stored(), allow_non_restored_state=False)
    restored = restored_state(graph, stored())
    assert restored[SubtaskId("task-2", 0)]["sums"].keyed.segments
    with pytest.raises(StateMigrationError, match="set_max_parallelism"):
        check_restore(
            job_graph(uid="sums", previous_uids=("totals",), max_parallelism=64),
            stored(),
            allow_non_restored_state=False,
        )


def test_the_present_uid_wins_over_a_previous_one() -> None:
    manifest = stored()
    manifest.operators["older"] = OperatorManifest("older", "Totals", 128, (OperatorSnapshot(),))
    graph = job_graph(previous_uids=("older",))
    check_restore(graph, manifest, allow_non_restored_state=False)
    assert restored_state(graph, manifest)[SubtaskId("task-2", 0)]["totals"].keyed.segments


def test_state_may_be_dropped_on_purpose() -> None:
    graph = job_graph(uid="renamed")
    check_restore(graph, stored(), allow_non_restored_state=True)
    restored = restored_state(graph, stored())
    assert set(restored) == {SubtaskId("task-1", 0)}


def test_an_operator_without_state_may_go() -> None:
    manifest = stored()
    manifest.operators["gone"] = OperatorManifest("gone", "Map", 128, (OperatorSnapshot(),))
    check_restore(job_graph(), manifest, allow_non_restored_state=False)


def test_another_max_parallelism_is_an_error_that_says_the_old_one() -> None:
    with pytest.raises(StateMigrationError, match=r"'Totals' \(job.py:2\).*set_max_parallelism\(128\)"):
        check_restore(job_graph(max_parallelism=64), stored(), allow_non_restored_state=False)


def test_another_max_parallelism_does_not_matter_without_keyed_state() -> None:
    manifest = stored()
    manifest.operators["totals"] = OperatorManifest("totals", "Totals", 64, (OperatorSnapshot(),))
    check_restore(job_graph(), manifest, allow_non_restored_state=False)


@pytest.mark.parametrize("parallelism", [1, 2, 3, 5])
def test_every_subtask_gets_its_key_groups(parallelism: int) -> None:
    restored = restored_state(job_graph(parallelism), stored())
    for index in range(parallelism):
        segments = restored[SubtaskId("task-2", index)]["totals"].keyed.segments
        covered = sorted((part.key_groups.start, part.key_groups.end) for part in segments)
        own = key_group_range_of_subtask(index, 128, parallelism)
        assert covered[0][0] == own.start
        assert covered[-1][1] == own.end
        for part in segments:
            assert part.key_groups.intersect(KeyGroupRange(0, 127)).size > 0
    assert restored[SubtaskId("task-1", 0)]["numbers"].lists[0] == position_handle(7)


def with_records(upstream_uid: str = "numbers", partitioning: str = "hash") -> CheckpointManifest:
    """The same with records under way to the second subtask of the totals."""
    manifest = stored()
    totals = manifest.operators["totals"]
    channel = ChannelRange(upstream_uid, 0, 0, 1, partitioning, 0, 10)
    handle = ChannelStateHandle(FileHandle("records", 10, ""), (channel,))
    subtasks = (totals.subtasks[0], replace(totals.subtasks[1], channels=handle))
    manifest.operators["totals"] = replace(totals, subtasks=subtasks)
    return manifest


def test_records_under_way_are_found_by_the_subtasks_that_own_their_keys() -> None:
    graph = job_graph()
    check_restore(graph, with_records(), allow_non_restored_state=False)
    found = recovered_records(graph, with_records())
    ((subtask, (recovered,)),) = found.items()
    assert subtask.task_id == "task-2"
    assert recovered.file.path == "records"
    assert recovered.channel.downstream_index == subtask.index


@pytest.mark.parametrize(("upstream_uid", "partitioning"), [("letters", "hash"), ("numbers", "rebalance")])
def test_records_under_way_without_their_edge_are_an_error_that_says_what_to_do(
    upstream_uid: str, partitioning: str
) -> None:
    manifest = with_records(upstream_uid, partitioning)
    expected = rf"records that were under way from .*'{upstream_uid}' to 'Totals'.*start from a savepoint"
    with pytest.raises(StateMigrationError, match=expected):
        check_restore(job_graph(), manifest, allow_non_restored_state=False)
    check_restore(job_graph(), manifest, allow_non_restored_state=True)
    assert recovered_records(job_graph(), manifest) == {}
