"""Large tables of a tree are read by several processes, with the same result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from loader.convert.file_trees.tree import FolderTree
from loader.convert.layouts.references import Table, find_references
from loader.convert.layouts.tree_files import TreeFiles
from loader.convert.sources import tree_tables
from loader.convert.tables.columns import TableColumn
from loader.convert.tables.source_options import SourceOptions
from loader.engine.run import Engine

TABLES = 3


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "images").mkdir()
    for number in range(60):
        (tmp_path / f"images/{number:04d}.jpg").write_bytes(b"")
    for table in range(TABLES):
        lines = (f"images/{number:04d}.jpg,{number},a cat,0.5" for number in range(table * 20, table * 20 + 20))
        (tmp_path / f"{table}.csv").write_text("path,number,caption,score\n" + "\n".join(lines))
    (tmp_path / "lists.json").write_text('{"a": [{"file": "images/0003.jpg"}], "b": {"x": 1}}')
    (tmp_path / "damaged.parquet").write_bytes(b"PAR1")
    return tmp_path


def read(folder: Path) -> tuple[TreeFiles, list[Table]]:
    files = TreeFiles(FolderTree(str(folder)))
    names = [name for name in files.names if not name.endswith(".jpg")]
    return files, [*tree_tables.TreeReader(files, SourceOptions(), str(folder)).tables(files, names)]


def facts(column: TableColumn) -> dict[str, Any]:
    return {name: value for name, value in vars(column).items() if name not in ("files", "texts")}


def test_processes_find_what_this_process_finds(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, alone = read(tree)
    seen = []
    run = Engine.run

    def noted(engine: Engine, function: Any, items: Any) -> Any:
        seen.append(engine.workers)
        return run(engine, function, items)

    monkeypatch.setattr(Engine, "run", noted)
    monkeypatch.setattr(tree_tables, "_MANY_BYTES", 0)
    monkeypatch.setattr(tree_tables, "usable_cores", lambda: 2)
    again, together = read(tree)
    assert seen == [2]
    assert len(alone) == TABLES + 1
    for one, other in zip(alone, together, strict=True):
        assert (one.file, one.inside, one.kind) == (other.file, other.inside, other.kind)
        assert [*map(facts, one.columns)] == [*map(facts, other.columns)]
        assert [column.usual_extension for column in one.columns] == [each.usual_extension for each in other.columns]
    references = [find_references(tables, of) for of, tables in ((files, alone), (again, together))]
    assert [[each.places for each in of_run] for of_run in references] == 2 * [[["path"]]]
