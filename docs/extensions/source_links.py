"""Copy source files to the site, list those of each folder, and point the links of pages to the copies.

In the repository, these links are relative paths and work unchanged.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from posixpath import relpath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
FOLDERS = ("benchmarks", "energon_cli", "loader", "tests")
LINK = re.compile(rf'\]\((?:\.\./)+((?:{"|".join(FOLDERS)})/(?:[\w/]+\.(?:pyi?|toml)|(?:\w+/)*))( "[^"]*")?\)')


def on_files(files: Files, config: MkDocsConfig) -> Files:
    sources = sorted(
        path for folder in FOLDERS for path in (ROOT / folder).rglob("*.*") if path.suffix in {".py", ".pyi", ".toml"}
    )
    for path in sources:
        files.append(File.generated(config, copy_of(name_of(path)), abs_src_path=str(path)))
    for folder in sorted({path.parent for path in sources}):
        lines = [f"{path.name:30} {summary(path)}".rstrip() for path in sources if path.parent == folder]
        rooms = [f"{inner.name}/" for inner in sorted(folder.iterdir()) if any(inner.glob("*.py"))]
        files.append(File.generated(config, copy_of(f"{name_of(folder)}/"), content="\n".join([*lines, *rooms, ""])))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: object) -> str:
    folder = page.file.src_uri.rpartition("/")[0]
    return LINK.sub(lambda link: f"]({relpath(copy_of(link[1]), folder or '.')}{link[2] or ''})", markdown)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def copy_of(source: str) -> str:
    # Browsers display .txt files; they download .py files.
    return f"source/{source}files.txt" if source.endswith("/") else f"source/{source}.txt"


def summary(path: Path) -> str:
    """Return the first line of a module's docstring."""
    if path.suffix == ".toml":
        return ""
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]
