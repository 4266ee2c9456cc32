"""The example that brings files into PostgreSQL, as a reader would start it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).parents[2] / "examples" / "postgres" / "files_to_postgres.py"


def test_every_order_is_in_the_table_once_and_the_totals_agree(database: Any, tmp_path: Path) -> None:
    orders = [(number, f"shop {number % 3}", number / 2) for number in range(300)]
    for part in range(3):
        lines = [json.dumps(dict(zip(("id", "shop", "price"), order))) for order in orders[part::3]]
        (tmp_path / f"{part}.jsonl").write_text("\n".join(lines))
    ended = subprocess.run(
        [sys.executable, PROGRAM, tmp_path, database.conninfo],
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert database.query("SELECT * FROM orders ORDER BY id") == orders
    assert database.query("SELECT * FROM totals ORDER BY shop") == [
        (f"shop {shop}", 100, sum(price for _, name, price in orders if name == f"shop {shop}"))
        for shop in range(3)
    ]
