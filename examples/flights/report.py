"""What the demo shows at its end."""

from __future__ import annotations

import pandas as pd
from rich.console import Console
from rich.table import Table
from tidegate.coordinator.monitoring.statistics import CheckpointOutcome, CheckpointStatistics, JobStatistics


def show_carriers(console: Console, totals: pd.DataFrame) -> None:
    """Who inherits most of its delay, first."""
    table = _table("Departure delay by airline", ["airline", "legs", "cancelled", "hours late"])
    for column in ("inherited", "own", "own, bad weather"):
        table.add_column(column, justify="right")
    totals = totals.assign(share=totals["inherited"] / totals["delay"])
    for row in totals.sort_values("share", ascending=False).itertuples():
        table.add_row(
            row.airline,
            f"{row.legs:,}",
            f"{row.cancelled:,}",
            f"{row.delay / 60:,.0f}",
            f"{row.share:.1%}",
            f"{row.own / row.delay:.1%}",
            f"{row.own_in_bad_weather / row.delay:.1%}",
        )
    console.print(table)


def show_checkpoints(console: Console, statistics: JobStatistics) -> None:
    """One line for each checkpoint."""
    table = _table("Checkpoints", ["id", "duration ms", "alignment ms", "state bytes", "new bytes"])
    table.add_column("outcome")
    for checkpoint in statistics.checkpoints:
        table.add_row(*_checkpoint_cells(checkpoint))
    console.print(table)


def show_recoveries(console: Console, statistics: JobStatistics, killed_ms: int | None) -> None:
    """How long each restart took."""
    for recovery in statistics.recoveries:
        restored = recovery.restored_checkpoint
        origin = "the beginning" if restored is None else f"checkpoint {restored}"
        line = f"Recovered in {recovery.duration_ms:,} ms from {origin}"
        if killed_ms is not None:
            line += f"; every task ran again {recovery.running_ms - killed_ms:,} ms after the kill"
        console.print(f"{line}. Cause: {recovery.cause}", highlight=False)


def _checkpoint_cells(checkpoint: CheckpointStatistics) -> list[str]:
    is_complete = checkpoint.outcome is CheckpointOutcome.COMPLETED
    return [
        str(checkpoint.checkpoint_id),
        f"{checkpoint.duration_ms:,.0f}",
        f"{checkpoint.alignment_ms:,.0f}",
        f"{checkpoint.size_bytes:,}",
        f"{checkpoint.new_bytes:,}",
        checkpoint.outcome.value if is_complete else f"{checkpoint.outcome.value}: {checkpoint.reason}",
    ]


def _table(title: str, columns: list[str]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    for number, column in enumerate(columns):
        is_name = column == "airline"
        table.add_column(column, justify="left" if is_name else "right", no_wrap=number == 0)
    return table
