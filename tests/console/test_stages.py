"""What `tidegate status` and the REST API show of the epochs of a job's stages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tidegate.console.output import say, table
from tidegate.console.rest.directory import FoundJob
from tidegate.console.rest.job_graph import vertices_of
from tidegate.console.rest.views.metric_views import live_job, subtask_metrics
from tidegate.console.stages import (
    STAGE_HEADINGS,
    stage_documents,
    stage_rows,
    web_ui_lines,
    whole_stage_documents,
)
from tidegate.coordinator.monitoring.job_archive import decode_job, encode_job
from tidegate.coordinator.monitoring.job_details import JobDetails
from tidegate.protocol.stages.stage_reports import PhaseTotals, RunTotals, StageReport

from tests.fake_jobs import fake_client, fake_job

from .stages import JOIN, STAGE_TASK, with_stage

DETAILS = with_stage(fake_job())


def rows(details: JobDetails) -> list[dict[str, object]]:
    cells = stage_rows(whole_stage_documents(details.subtasks), stage_documents(details.subtasks))
    return [dict(zip(STAGE_HEADINGS, row, strict=True)) for row in cells]


def test_each_subtask_of_a_stage_has_a_row_and_a_row_of_the_stage_counts_each_epoch_once() -> None:
    whole, first, second = rows(DETAILS)
    assert whole == {
        "stage": "enrich 1",
        "gathering": "#7: 24,000, 187.5 KiB",
        "waiting": "2 from #5: 80,000",
        "running": "#4: 40,000",
        "emitting": "#3: 40,000",
        "buffered": "1.1 MiB of 512.0 MiB",
        "in": 264_000,
        "out": 88_192,
        "runs": 3,
        "last": "1.25 s",
        "total": "3.40 s",
    }
    assert first == {
        "stage": "enrich 1 (1)",
        "gathering": "#7: 12,000, 93.8 KiB",
        "waiting": "2 from #5: 40,000",
        "running": "#4: 20,000",
        "emitting": "#3: 20,000",
        "buffered": "562.5 KiB of 256.0 MiB",
        "in": 132_000,
        "out": 44_096,
        "runs": 3,
        "last": "1.25 s",
        "total": "3.40 s",
    }
    assert second == {**first, "stage": "enrich 1 (2)", "runs": "-", "last": "-", "total": "-"}


ON_LOOPBACK = " (listens on loopback: open it on node-2 or forward its port)"


@pytest.mark.parametrize(
    ("address", "line"),
    [
        (
            "http://127.0.0.1:38331",
            f"Spark's web UI: http://127.0.0.1:38331{ON_LOOPBACK}",
        ),
        (
            "http://localhost:4040",
            f"Spark's web UI: http://localhost:4040{ON_LOOPBACK}",
        ),
        ("http://10.0.0.7:4040", "Spark's web UI: http://10.0.0.7:4040"),
        ("", None),
        ("javascript:alert(1)", None),
    ],
)
def test_the_address_of_sparks_web_ui_comes_with_a_note(address: str, line: str | None) -> None:
    details = with_stage(fake_job(), replace(JOIN, web_ui=address))
    found = list(web_ui_lines(stage_documents(details.subtasks)))
    assert found[:1] == ([] if line is None else [line])


def test_the_live_document_has_an_entry_for_each_subtask_of_a_stage() -> None:
    live = live_job(FoundJob(DETAILS, fake_client(DETAILS)))
    stages = {vertex.id: vertex.stages for vertex in live.vertices}
    assert [stage.subtask for stage in stages.pop(STAGE_TASK)] == [0, 1]
    assert not any(stages.values())
    (whole,) = next(vertex.whole_stages for vertex in live.vertices if vertex.id == STAGE_TASK)
    assert whole.running.model_dump() == {"epochs": 1, "records": 40_000, "size_bytes": 320_000, "first": 4}
    assert (whole.subtasks, whole.epochs_run, whole.run_ms) == (2, 3, 3_400)
    (stage, other) = next(vertex.stages for vertex in live.vertices if vertex.id == STAGE_TASK)
    assert (other.epochs_run, other.last_run_ms, other.run_ms) == (None, None, None)
    assert stage.running.model_dump() == {"epochs": 1, "records": 20_000, "size_bytes": 160_000, "first": 4}
    assert [(each.number, each.phase) for each in stage.epochs][:2] == [(3, "emitting"), (4, "running")]
    assert (stage.last_run_ms, stage.run_ms, stage.web_ui_is_on_loopback) == (1_250, 3_400, True)


def test_metrics_of_a_stage_have_the_name_of_its_operator() -> None:
    vertex = next(each for each in vertices_of(DETAILS) if each.vertex_id == STAGE_TASK)
    assert "enrich 1.numEpochsWaiting" in {metric.id for metric in subtask_metrics(vertex, [])}
    (metric,) = subtask_metrics(vertex, ["enrich 1.numEpochsWaiting"])
    assert (metric.min, metric.max, metric.sum) == (2, 2, 2)
    (metric,) = subtask_metrics(vertex, ["enrich 1.numRecordsIn"])
    assert (metric.min, metric.max, metric.sum) == (132_000, 132_000, 264_000)


def test_epochs_are_in_the_archive_of_a_job() -> None:
    archived = {
        each.subtask: each.metrics.stages for each in decode_job(encode_job(DETAILS), "path").subtasks
    }
    assert archived == {each.subtask: each.metrics.stages for each in DETAILS.subtasks}


def test_the_guide_shows_what_status_prints(capsys: pytest.CaptureFixture[str]) -> None:
    stage = StageReport(
        "join",
        "join",
        gathering=PhaseTotals(1, 12_000, 96_000, 7),
        running=PhaseTotals(1, 200_000, 1_600_000, 6),
        emitting=PhaseTotals(1, 200_000, 0, 5),
        buffered_bytes=1_696_000,
        buffer_limit_bytes=256 << 20,
        records_in=1_212_000,
        records_out=844_096,
        runs=RunTotals(5, 1_250, 6_400),
        web_ui="http://127.0.0.1:38331",
    )
    subtasks = with_stage(fake_job(), stage).subtasks[:3]
    whole, documents = whole_stage_documents(subtasks), stage_documents(subtasks)
    say({}, lambda: [table(STAGE_HEADINGS, stage_rows(whole, documents)), *web_ui_lines(documents)])
    page = (Path(__file__).parents[2] / "docs" / "spark.md").read_text("utf-8")
    shown = page.partition("<!-- epochs: begin -->\n```text\n")[2].partition("```\n<!-- epochs: end -->")[0]
    assert shown == capsys.readouterr().out
