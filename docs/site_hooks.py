"""Hooks of MkDocs: pages for the files of the repository that the documentation links to.

Links in `docs/` are relative, so that they work in a clone and on a forge. Some lead out of `docs/`: to
examples, manifests, CONTRIBUTING. MkDocs knows only what lies in `docs/`. So each such file becomes a page
below `repository/`, and the links to it are turned there. A Markdown file becomes a page as it is, a
directory a list, anything else a listing.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
DOCS = "docs"
PLACE = "repository"
# These are in the navigation, so there is a page for each even if nobody links to it.
ALWAYS = ("CHANGELOG.md", "CONTRIBUTING.md", "benchmarks/README.md", "k8s/README.md")
LANGUAGES = {".py": "python", ".yaml": "yaml", ".json": "json", ".toml": "toml"}

_LINK = re.compile(r"(?<=\]\()(?P<target>[^)\s#:]+)(?P<anchor>#[^)\s]*)?(?=\))")
_FENCE = re.compile(r"^(?P<fence>```+|~~~+).*?^(?P=fence)\s*?$", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for every file outside `docs/` that is linked to, also by such a page itself."""
    waiting = [*ALWAYS]
    for file in files.documentation_pages():
        waiting += _targets(file.content_string, f"{DOCS}/{file.src_uri}")
    known: set[str] = set()
    while waiting:
        path = waiting.pop()
        if path in known or path.startswith(f"{DOCS}/") or not (ROOT / path).exists():
            continue
        known.add(path)
        content = _content(path)
        waiting += _targets(content, path)
        inclusion = InclusionLevel.INCLUDED if path in ALWAYS else InclusionLevel.NOT_IN_NAV
        files.append(File.generated(config, _page_of(path), content=content, inclusion=inclusion))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn the links that leave `docs/`, and those of a page from outside that lead into it."""
    here = page.file.src_uri
    source = here.removeprefix(f"{PLACE}/").removesuffix(".md") if here.startswith(f"{PLACE}/") else None
    origin = f"{DOCS}/{here}" if source is None else next(p for p in _origins(source) if (ROOT / p).exists())

    def turned(match: re.Match[str]) -> str:
        path = _resolved(match["target"], origin)
        if path == DOCS or path.startswith(f"{DOCS}/"):
            target = path.removeprefix(DOCS).removeprefix("/")
            target = posixpath.join(target, "README.md") if (ROOT / path).is_dir() else target
        elif (ROOT / path).exists():
            target = _page_of(path)
        else:
            return match[0]  # MkDocs reports it.
        return posixpath.relpath(target, posixpath.dirname(here) or ".") + (match["anchor"] or "")

    return _outside_fences(markdown, lambda text: _LINK.sub(turned, text))


def _origins(source: str) -> list[str]:
    return [f"{source}.md", source, source.removesuffix("/index")]


def _page_of(path: str) -> str:
    """The address of the page of a file or directory of the repository, below `docs/`."""
    if (ROOT / path).is_dir():
        return f"{PLACE}/{path}/index.md"
    return f"{PLACE}/{path}" if path.endswith(".md") else f"{PLACE}/{path}.md"


def _content(path: str) -> str:
    file = ROOT / path
    if file.is_dir():
        names = sorted(p.name for p in file.iterdir() if p.is_file() and p.suffix in LANGUAGES)
        return f"# {path}\n\n" + "\n".join(f"* [{name}]({name})" for name in names) + "\n"
    text = file.read_text("utf-8")
    if path.endswith(".md"):
        return text
    return f"# {path}\n\n````{LANGUAGES.get(file.suffix, 'text')}\n{text}\n````\n"


def _targets(markdown: str, origin: str) -> list[str]:
    text = _FENCE.sub("", markdown)
    return [_resolved(match["target"], origin) for match in _LINK.finditer(text)]


def _resolved(target: str, origin: str) -> str:
    base = origin if (ROOT / origin).is_dir() else posixpath.dirname(origin)
    return posixpath.normpath(posixpath.join(base, target))


def _outside_fences(markdown: str, change: Callable[[str], str]) -> str:
    parts: list[str] = []
    end = 0
    for fence in _FENCE.finditer(markdown):
        parts += [change(markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, change(markdown[end:])])
