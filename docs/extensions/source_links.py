"""Copy source files to the site, and point the links of pages to the copies.

In the repository, these links are relative paths and work unchanged.
"""

from __future__ import annotations

import re
from pathlib import Path
from posixpath import relpath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\((?:\.\./)+(loader/[\w/]+\.py)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for path in sorted((ROOT / "loader").rglob("*.py")):
        name = copy_of(path.relative_to(ROOT).as_posix())
        files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: object) -> str:
    folder = page.file.src_uri.rpartition("/")[0]
    return LINK.sub(lambda link: f"]({relpath(copy_of(link[1]), folder or '.')})", markdown)


def copy_of(source: str) -> str:
    return f"source/{source}.txt"  # browsers display .txt files; they download .py files
