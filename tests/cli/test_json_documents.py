"""The JSON of commands, key by key and in order, so that it changes only on purpose.

``ENERGON_WRITE_GOLDEN=1 pytest tests/cli/test_json_documents.py`` rewrites the golden files.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from tests.cli.run_energon import RunEnergon
from tests.unit.metadataset.joined_data import JoinedData, filling, join_of

GOLDEN = Path(__file__).parent.parent / "golden" / "json"
CASES = {
    "add-parts": "add-parts DATA TMP/parts --from TMP/rows.jsonl --nonmatch none --json",
    "diff": "diff DATA TMP/another --json",
    "exclude": "exclude DATA 000001 --json",
    "exclude-list": "exclude DATA --list --json",
    "export": "export DATA TMP/files --json",
    "extract": "extract DATA -o TMP/some.jsonl -n 2 --json",
    "get": "get DATA 000001 --json",
    "import": "import TMP/rows.jsonl TMP/imported --yes --json",
    "import-dry-run": "import TMP/rows.jsonl TMP/imported --yes --dry-run --json",
    "merge": "merge DATA TMP/another TMP/both --copy --rename-keys --json",
    "prepare": "prepare DATA --yes --json",
    "prepare-dry-run": "prepare TMP/raw --yes --dry-run --json",
    "prepare-join": "prepare TMP/joined/meta.yaml --json",
    "prepare-part": "prepare TMP/raw --part 1/2 --json",
    "reshard": "reshard DATA TMP/resharded --json",
    "rule": "rule E302 L101 --json",
    "split": "split DATA --split-ratio 1,1 --json",
    "split-check": "split DATA --check --group-by key:.$ --json",
    "split-dry-run": "split DATA --split-ratio 1,1 --dry-run --json",
    "split-undo": "split DATA --undo --json",
}


@pytest.mark.parametrize("name", CASES)
def test_the_json_of_a_command_matches_the_golden_file(name: str, prepared: Path, energon: RunEnergon) -> None:
    folder = prepared.parent
    make_inputs(prepared)
    if name == "exclude-list":
        assert energon("exclude", prepared, "000002", "--reason", "blurred").code == 0
    words = [word.replace("DATA", str(prepared)).replace("TMP", str(folder)) for word in CASES[name].split()]
    done = energon(*words)
    assert done.out, done.err
    text = settled(done.out, folder)
    path = GOLDEN / f"{name}.json"
    if os.environ.get("ENERGON_WRITE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
    json.loads(text)


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
    data = JoinedData(folder / "joined")
    data.add_dataset("p", {"p0": ["a", "b", "c"], "p1": ["d"]})
    data.add_dataset("q", {"q0": ["d", "x"], "q1": ["b", "a"]})
    data.write("meta.yaml", {"train": join_of("p", filling("q"))})


def settled(text: str, folder: Path) -> str:
    """Replace paths, durations, identifiers and times, which are others in each run."""
    text = text.replace(str(folder), "TMP")
    text = re.sub(r'("seconds": )[-0-9.e]+', r"\g<1>0", text)
    text = re.sub(r'("uuid": )"[^"]*"', r'\1"UUID"', text)
    return re.sub(r"\d{4}-\d\d-\d\dT[0-9:.]+Z", "TIME", text)
