"""Decisions of an import are printed with their evidence; unclear ones are made by a menu or by command lines."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from energon_cli.main import main
from tests.cli.run_energon import RunEnergon
from tests.cli.terminal import DOWN, ENTER, TerminalRun
from tests.cli.test_first_import import words_of_shell
from tests.layouts.layout import packed, picture, tar_of, write

MENU, TYPE, WRITE = "What should be imported?", "What type are the samples?", "» y  yes, write"


@pytest.fixture
def unclear(tmp_path: Path) -> Path:
    """A folder of pictures and of a table that does not name them."""
    rows = "".join(f"x{number},{number}\n" for number in range(5))
    write(tmp_path / "my data", {"prices.csv": f"product,price\n{rows}"})
    write(tmp_path / "my data", {f"photos/{number}.png": picture("PNG") for number in range(12)})
    return tmp_path / "my data"


def test_a_menu_imports_what_is_chosen_with_all_that_was_typed(unclear: Path, tmp_path: Path) -> None:
    output = tmp_path / "my out"
    with TerminalRun("import", unclear, output, "--format", "jpg", "--split-ratio", "1,1,1", columns=150) as run:
        run.wait_for(MENU)
        assert "prices.csv alone: 5 rows; leaves out files (12)" in run.text
        assert "the files alone: 12 files; leaves out text tables (1)" in run.text
        run.press(ENTER).wait_for(TYPE).press(ENTER).wait_for(WRITE)
        assert run.press(ENTER).finish() == 0
    assert "split: train 4, val 4, test 4 samples" in run.text
    assert "sample type: ImageSample (image ← jpg)" in run.text, "--format holds in the run that was chosen"
    assert main(["lint", str(output)]) == 0


def test_a_menu_for_several_sources_offers_what_keeps_the_others(unclear: Path, tmp_path: Path) -> None:
    rows = "".join(f"z{number},{number}\n" for number in range(3))
    write(tmp_path, {"more.csv": f"product,price\n{rows}"})
    output = tmp_path / "out"
    with TerminalRun("import", tmp_path / "more.csv", unclear, output, "--split-ratio", "1,1,1", columns=150) as run:
        run.wait_for(MENU)
        assert "prices.csv alone: 5 rows; leaves out files (12)" in run.text
        assert "the files alone: 12 files" not in run.text, "--group-by would also be for more.csv"
        assert "my data-dataset' --split-ratio 1,1,1 --group-by name --yes" in " ".join(run.text.split())
        run.press(ENTER).wait_for(TYPE).press(ENTER).wait_for(WRITE)
        assert run.press(ENTER).finish() == 0
    assert "8 samples" in run.text, "the rows of both tables"


def test_the_menu_can_be_left_and_shows_what_a_command_alone_does(unclear: Path, tmp_path: Path) -> None:
    archive = packed(unclear, "zip")
    with TerminalRun("import", archive, tmp_path / "out", columns=150) as run:
        run.wait_for(MENU)
        assert "for prices.csv alone, unpack the archive first:" in run.text
        assert run.press(DOWN, ENTER).finish() == 1
    assert "nothing was written" in run.text
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("form", ["folder", "zip"])
def test_printed_command_lines_have_the_options_that_were_typed(
    form: str, unclear: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, energon: RunEnergon
) -> None:
    monkeypatch.chdir(tmp_path)
    source = unclear if form == "folder" else packed(unclear, "zip")
    typed = [
        "--no-classes",
        "--max-failures",
        "5%",
        "--part",
        "txt=my product",
        "--part=json=price",
        "--split-ratio=1,1",
    ]
    refused = energon("import", source, "the out", *typed, "--key-column", "price", "--yes")
    assert refused.code == 1
    lines = re.findall(r"energon import [^;\n]*", refused.err)
    meant = (
        "'the out' --no-classes --max-failures 5% --part 'txt=my product' --part json=price --split-ratio 1,1"
        " --key-column price"
    )
    assert [meant in line for line in lines] == [True, True]
    assert energon(*words_of_shell(lines[0])[1:]).code == 0
    assert "1,1" not in energon("import", source, "out", "--yes").err


def test_a_dry_run_of_unclear_data_shows_what_each_way_accounts_for(
    unclear: Path, tmp_path: Path, energon: RunEnergon
) -> None:
    done = energon("import", unclear, tmp_path / "out", "--dry-run")
    assert done.code == 1
    assert (
        "rows of tables: the samples are the rows of prices.csv; no role for 12 files, such as photos/0.png" in done.out
    )
    assert "files: the files of a sample have the same name; no role for 1 file, such as prices.csv" in done.out
    assert "(taken)" not in done.out
    assert "it is unclear which is meant" in done.err
    done = energon("import", unclear, tmp_path / "out", "--dry-run", "--json")
    assert done.code == 1
    assert [(each["samples"], each["unclear"]) for each in done.json["hypotheses"]] == [(5, 12), (12, 1)]


def test_the_decision_is_printed_with_what_the_tables_name(tmp_path: Path, energon: RunEnergon) -> None:
    write(tmp_path / "in", {f"clips/{number}.png": picture() for number in range(12)})
    parts = {
        "train": range(6),
        "dev": range(6, 8),
        "test": range(8, 10),
        "validated": range(10),
        "invalidated": (10, 11),
    }
    for part, numbers in parts.items():
        rows = "".join(f"{number}.png\tpicture {number} of some\n" for number in numbers)
        write(tmp_path / "in", {f"{part}.tsv": f"path\tsentence\n{rows}"})
    decision = (
        "the samples are the 10 rows of dev.tsv, test.tsv and train.tsv, with the names of 10 of 12 files, in these"
        " split parts; the same files again in validated.tsv; other files, of no split part, in invalidated.tsv"
    )
    done = energon("import", tmp_path / "in", tmp_path / "out", "--yes")
    assert decision in done.out.splitlines()
    assert "sample type: CaptioningSample (image ← png, caption ← txt)" in done.out
    assert done.out.endswith(f"to look at samples, run: energon preview {tmp_path}/out\n")
    taken = energon("import", tmp_path / "in", tmp_path / "again", "--yes", "--json").json["hypotheses"]
    assert [each["evidence"] for each in taken] == [decision]


def test_what_was_compared_is_known_of_tars_too(tmp_path: Path, energon: RunEnergon) -> None:
    for number in range(2):
        write(
            tmp_path / "in",
            {f"{number}.tar": tar_of({f"{number}.txt": b"a text"}), f"{number}.json": json.dumps({"n": 1})},
        )
    found = energon("import", tmp_path / "in", tmp_path / "out", "--dry-run", "--json").json
    assert [(each["name"], each["samples"], each["left_out"]) for each in found["hypotheses"]][:1] == [
        ("samples in tars", None, 2)
    ]
