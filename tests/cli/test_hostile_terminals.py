"""The pager and the prompts of ``energon prepare`` show names with control characters as text, on a pseudo-terminal."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from energon_cli.commands.look.preview.walk import KEYS_HELP
from tests.cli.make_dataset import caption_parts
from tests.cli.run_energon import RunEnergon
from tests.cli.terminal import ENTER, RIGHT, TAB, TerminalRun
from tests.e2e.dataset_tree import write_shard
from tests.malformed.test_hostile_names import as_yaml

TITLE, CLEAR = "\x1b]0;x\x07", "\x1b[2J"
EVIL = f"{TITLE}{CLEAR}\x1bc\u202eb\u2066\x9b31m"
NAMEABLE = "\x1bc\u202eb\u2066\x9b31m"  # in a field map, whose part names have no brackets
QUOTED = r"\x1bc\u202eb\u2066\x9b31m"
_UNSAFE = re.compile(r"\x1b\]0;|\x1bc|[\u202a-\u202e\u2066-\u2069\x80-\x9f]")


def write_captions(folder: Path, evil: str) -> Path:
    for shard in range(3):
        samples = {
            f"k{evil}{number}": {
                f"j{evil}.jpg": caption_parts(number)["jpg"],
                f"t{evil}.txt": f"number {number}, {evil}".encode(),
                "json": json.dumps({f"k{evil}": {f"n{evil}": evil}}).encode(),
            }
            for number in range(2)
        }
        write_shard(folder / f"s{evil}{shard}.tar", samples)
    return folder


def assert_safe(run: TerminalRun) -> None:
    found = _UNSAFE.search(run.raw)
    assert found is None, ascii(run.raw[max(0, found.start() - 80) : found.end() + 20])


@pytest.fixture
def evil(tmp_path: Path, energon: RunEnergon) -> Path:
    folder = write_captions(tmp_path / f"d{EVIL}", EVIL)
    assert energon("prepare", folder, "--yes", "--num-workers", 1, "--split-ratio", "1").code == 0
    return folder


def test_the_pager_shows_names_escaped_on_all_its_screens(evil: Path) -> None:
    with TerminalRun("preview", evil, "--crude", columns=160) as run:
        run.wait_for(KEYS_HELP).press("x").wait_for("noted").press(RIGHT).wait_for("number 1,").press("x")
        run.press("/", *f"no {NAMEABLE[2:]}", ENTER).wait_for("no key or text contains")
        run.press("/", *"number 0", ENTER).wait_for("sample 2 of 6")
        run.press("g", *"9\u202e", ENTER).wait_for("expected a number")
        run.press("t").wait_for(r"x eb\u2066\x9b31m0").press(RIGHT, "x").press(ENTER).wait_for(KEYS_HELP)
        assert run.press("q").finish() == 0
        assert "exclude:" in run.text
    assert_safe(run)
    assert r"\x1b]0;x\x07\x1b[2J\x1bc\u202eb" in run.raw


def test_the_pager_shows_the_names_of_a_mix_escaped(evil: Path) -> None:
    mix = evil.parent / f"mix{EVIL}.yaml"
    path, name = as_yaml(str(evil)), as_yaml(EVIL)
    mix.write_text(
        f"__module__: megatron.energon\n__class__: MetadatasetV2\nsplits:\n  train:\n    blend:\n"
        f"    - {{path: {path}, weight: 1, subflavors: {{{name}: {name}}}}}\n    - {{path: {path}, weight: 2}}\n"
    )
    with TerminalRun("preview", mix, "--crude", columns=160) as run:
        run.wait_for(KEYS_HELP).press("x").wait_for("noted").press("t").wait_for(r"x eb\u2066\x9b31m0").press("q")
        assert run.wait_for(KEYS_HELP).press("q").finish() == 0
        assert "# " in run.text
    assert_safe(run)


def test_the_prompts_show_names_escaped_and_accept_them(tmp_path: Path) -> None:
    folder = write_captions(tmp_path / f"d{EVIL}", NAMEABLE)
    with TerminalRun("prepare", folder, "--num-workers", 1, rows=90, columns=160) as run:
        run.wait_for("How should the shards be split?").press(ENTER).wait_for("What type are the samples?")
        run.press(ENTER).wait_for("come from?").press(ENTER).wait_for(f"image (image) from j{QUOTED}.jpg")
        run.press(ENTER).wait_for(f"caption (text) from t{QUOTED}.txt")
        run.press(*30 * ["\x7f"], "q", ENTER).wait_for("is missing: json has no 'q'")
        run.wait_for("» change the fields").press(ENTER).wait_for("image (image) from", times=2).press(ENTER)
        run.wait_for("caption (text) from", times=2).press(*60 * ["\x7f"], TAB).wait_for("  json\n")
        run.press("t", TAB).wait_for(f"from t{QUOTED}.txt")
        run.press(ENTER).wait_for("» y  yes, write")
        assert run.press("y").finish() == 0
    assert_safe(run)
    field_map = yaml.safe_load((folder / ".nv-meta/dataset.yaml").read_text())["field_map"]
    assert field_map == {"image": f"j{NAMEABLE}.jpg", "caption": f"t{NAMEABLE}.txt"}


@pytest.mark.parametrize("options", [(), ("--yes", "--dry-run")], ids=["prompts", "dry run"])
def test_parts_that_no_field_map_can_name_are_kept_in_crude_samples(tmp_path: Path, options: tuple[str, ...]) -> None:
    folder = write_captions(tmp_path / f"d{EVIL}", EVIL)
    with TerminalRun("prepare", folder, "--num-workers", 1, *options, rows=90, columns=160) as run:
        if not options:
            run.wait_for("How should the shards be split?").press(ENTER).wait_for("What type are the samples?")
            run.press(ENTER).wait_for("» y  yes, write").press("y")
        assert run.finish() == 0
        assert "CrudeWebdataset" in run.raw
    assert_safe(run)
