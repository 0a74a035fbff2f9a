"""The JSON of commands, key by key and in order, so that it changes only on purpose.

``ENERGON_WRITE_GOLDEN=1 pytest tests/cli/test_json_documents.py`` rewrites the golden files.
"""

from __future__ import annotations

import ast
import gzip
import json
import os
import re
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from loader import WorkerConfig, __version__, get_savable_loader, get_train_dataset
from tests.cli.make_dataset import caption_parts, picture, write_captions
from tests.cli.run_energon import RunEnergon
from tests.source_tree import ROOT
from tests.unit.metadataset.joined_data import JoinedData, filling, join_of

GOLDEN = Path(__file__).parent.parent / "golden" / "json"
LOG = GOLDEN.parent / "megatron_energon" / "debug_log"
CASES = {
    "analyze-debug": "analyze-debug LOG --no-heatmap --json",
    "analyze-debug-step": "analyze-debug LOG --step 1 --json",
    "add-parts": "add-parts DATA TMP/parts --from TMP/rows.jsonl --nonmatch none --json",
    "checkpoint-info": "checkpoint info TMP/state.json TMP/rows.jsonl --json",
    "checkpoint-migrate": "checkpoint migrate TMP/state.json DATA TMP/migrated --json",
    "checkpoint-redist": "checkpoint redist TMP/state.json TMP/converted --new-world-size 2 --json",
    "diff": "diff DATA TMP/another --json",
    "embed": "embed DATA --model minhash --json",
    "exclude": "exclude DATA 000001 --json",
    "exclude-list": "exclude DATA --list --json",
    "exclude-undo": "exclude DATA --undo --json",
    "explain": "explain DATA --json",
    "export": "export DATA TMP/files --json",
    "extract": "extract DATA -o TMP/some.jsonl -n 2 --json",
    "get": "get DATA 000001 --json",
    "import": "import TMP/rows.jsonl TMP/imported --yes --json",
    "import-dry-run": "import TMP/rows.jsonl TMP/imported --yes --dry-run --json",
    "info": "info DATA --json",
    "lint": "lint TMP/damaged --json",
    "lint-sarif": "lint TMP/damaged --format sarif",
    "map": "map DATA TMP/quality.py:length --write length --max-failures 1 --json",
    "merge": "merge DATA TMP/another TMP/both --copy --rename-keys --json",
    "plan": "plan DATA --balance 1 --lanes 1 --json",
    "prepare": "prepare DATA --yes --json",
    "prepare-decompress": "prepare TMP/compressed --decompress --dry-run --json",
    "prepare-dry-run": "prepare TMP/raw --yes --dry-run --json",
    "prepare-join": "prepare TMP/joined/meta.yaml --json",
    "prepare-join-dry-run": "prepare TMP/joined/meta.yaml --dry-run --json",
    "prepare-jsonl": "prepare TMP/rows.jsonl --json",
    "prepare-media": "prepare-media TMP/pictures --media-metadata-by-extension --json",
    "prepare-media-part": "prepare DATA --yes --media-metadata-by-extension --json",
    "prepare-record": "prepare TMP/table.parquet --json",
    "prepare-part": "prepare TMP/raw --share 1/2 --json",
    "reshard": "reshard DATA TMP/resharded --json",
    "rule": "rule E302 L101 --json",
    "preview": "preview DATA -n 1 --json",
    "stats": "stats DATA --json",
    "trace": "trace DATA --step 1 --batch-size 2 --json",
    "split": "split DATA --split-ratio 1,1 --json",
    "split-check": "split DATA --check --group-by key:.$ --json",
    "split-dry-run": "split DATA --split-ratio 1,1 --dry-run --json",
    "split-undo": "split DATA --undo --json",
}

CASES_OF_LINES = ("analyze-debug-step", "trace")
"""Commands that print a document in each line."""

OTHER_SCHEMAS = ("sarif_log", "_result")
"""Functions whose documents another specification describes."""


def handwritten_documents(node: ast.AST) -> Iterator[str]:
    """Yield the dicts of three or more named values in the functions of a module, each with its line."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Dict):
            keys = [key.value for key in inner.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
            if sum(map(str.isidentifier, keys)) >= 3:
                yield f"line {inner.lineno}: {', '.join(keys)}"


def test_documents_name_the_attributes_of_reports() -> None:
    printing = {path: path.read_text("utf-8") for path in (ROOT / "energon_cli" / "commands").rglob("*.py")}
    modules = {path: ast.parse(text) for path, text in printing.items() if "facts_of" in text or "print_json" in text}
    faults = [
        f"{path.relative_to(ROOT)}: {fault}"
        for path, module in modules.items()
        for part in module.body
        if isinstance(part, ast.FunctionDef | ast.ClassDef) and part.name not in OTHER_SCHEMAS
        for fault in handwritten_documents(part)
    ]
    assert not faults, "expected facts_of(report, names)"


def test_a_handwritten_document_is_refused() -> None:
    code = 'def f():\n    print_json({"path": 1, **facts, "bytes": 2, "samples": 3})'
    assert list(handwritten_documents(ast.parse(code))) == ["line 2: path, bytes, samples"]
    assert not list(handwritten_documents(ast.parse('print_json({"datasets": documents})')))


@pytest.mark.parametrize("name", CASES)
def test_the_json_of_a_command_matches_the_golden_file(name: str, prepared: Path, energon: RunEnergon) -> None:
    folder = prepared.parent
    make_inputs(prepared)
    if name.startswith("checkpoint"):
        save_state(prepared, folder / "state.json")
    if name in ("exclude-list", "exclude-undo"):
        assert energon("exclude", prepared, "000002", "--reason", "blurred").code == 0
    words = [
        word.replace("DATA", str(prepared)).replace("TMP", str(folder)).replace("LOG", str(LOG))
        for word in CASES[name].split()
    ]
    done = energon(*words)
    assert done.out, done.err
    text = settled(done.out, folder)
    path = GOLDEN / f"{name}.json"
    if os.environ.get("ENERGON_WRITE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
    for document in text.splitlines() if name in CASES_OF_LINES else [text]:
        json.loads(document)


def make_inputs(prepared: Path) -> None:
    """Write the inputs of the cases next to a prepared dataset."""
    folder = prepared.parent
    shutil.copytree(prepared, folder / "another")
    (folder / "raw").mkdir()
    for shard in prepared.glob("*.tar"):
        shutil.copy(shard, folder / "raw")
    (folder / "another" / ".nv-meta" / "split.yaml").write_text('split_parts: {train: ["shard_{000..003}.tar"]}\n')
    rows = [{"id": f"{number:06}", "caption": f"a {number}"} for number in range(10)]
    (folder / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (folder / "quality.py").write_text("def length(sample):\n    return 1 // (int(sample.__key__[-1]) - 3)\n")
    data = JoinedData(folder / "joined")
    data.add_dataset("p", {"p0": ["a", "b", "c"], "p1": ["d"]})
    data.add_dataset("q", {"q0": ["d", "x"], "q1": ["b", "a"]})
    data.write("meta.yaml", {"train": join_of("p", filling("q"))})
    (folder / "pictures").mkdir()
    (folder / "pictures" / "a.jpg").write_bytes(picture(0))
    (folder / "pictures" / "b.jpg").write_bytes(b"no picture")
    (folder / "compressed").mkdir()
    with gzip.open(folder / "compressed" / "s.tar.gz", "wb") as file:
        file.write((prepared / "shard_000.tar").read_bytes())
    pq.write_table(pa.table({"caption": ["a", "b"]}), folder / "table.parquet")
    write_captions(folder / "damaged", shards=1, parts=lambda number: {**caption_parts(number), "json": b"{"})


def save_state(prepared: Path, path: Path) -> None:
    """Save the state of a run that has taken two micro-batches."""
    config = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=4)
    dataset = get_train_dataset(
        prepared, worker_config=config, batch_size=2, shuffle_buffer_size=4, max_samples_per_sequence=None
    )
    with get_savable_loader(dataset) as loader:
        list(islice(loader, 2))
        path.write_text(json.dumps(loader.save_state_rank()))


def settled(text: str, folder: Path) -> str:
    """Replace paths, durations, identifiers and times, which are others in each run."""
    text = text.replace(str(folder), "TMP").replace(str(LOG), "LOG").replace(__version__, "VERSION")
    text = re.sub(r'("seconds": )[-0-9.e]+', r"\g<1>0", text)
    text = re.sub(r'("uuid": )"[^"]*"', r'\1"UUID"', text)
    return re.sub(r"\d{4}-\d\d-\d\dT[0-9:.]+Z", "TIME", text)
