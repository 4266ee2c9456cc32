"""The documentation builds as a site, without a warning, and asks no other address."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; a link or an anchor that leads nowhere, or a page without a place, ends the build."""
    directory = tmp_path_factory.mktemp("site")
    # Not --quiet: MkDocs counts only the warnings that it prints.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(directory)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=150)
    assert built.returncode == 0, built.stderr
    return directory


def test_every_page_of_docs_is_in_the_site(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        relative = page.relative_to(ROOT / "docs").with_suffix(".html")
        built = relative.with_name("index.html") if page.name == "README.md" else relative
        assert (site / built).is_file(), page


def test_links_out_of_docs_lead_to_pages_of_the_site(site: Path) -> None:
    assert 'href="../repository/examples/guide/joins.py.html"' in (site / "guide/joins.html").read_text(
        "utf-8"
    )
    listing = (site / "repository/examples/guide/joins.py.html").read_text("utf-8")
    assert "StreamExecutionEnvironment" in listing
    manifests = (site / "repository/k8s/index.html").read_text("utf-8")
    assert 'id="one-job"' in manifests


def test_no_page_loads_anything_from_another_address(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = re.findall(
            r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=\"?(https?:[^\"\s>]+)", page.read_text("utf-8")
        )
        assert not loaded, f"{page.relative_to(site)} loads {loaded}"
