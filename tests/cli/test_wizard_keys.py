"""The prompts of ``energon prepare``, with real keystrokes on a pseudo-terminal."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from energon_cli.commands.make.menus import menu_label, proposed_pattern
from loader.format.documents.sample_types import SAMPLE_TYPES
from loader.prepare.split import split_by_patterns
from tests.cli.make_dataset import caption_parts, write_captions
from tests.cli.terminal import CTRL_C, CTRL_D, DOWN, ENTER, ESCAPE, LEFT, RIGHT, TAB, UP, TerminalRun
from tests.cli.test_prepare import files_of

SPLIT, TYPE, FROM, WRITE = (
    "How should the shards be split?",
    "What type are the samples?",
    "come from?",
    "» y  yes, write",
)
TEXTS = {"json": b'{"texts": ["a", null, null]}'}
AGAIN = "This dataset is already prepared. What should change?"


def read_yaml(folder: Path, name: str) -> Any:
    return yaml.safe_load((folder / ".nv-meta" / name).read_text())


@pytest.fixture
def wizard(captions: Path) -> Iterator[TerminalRun]:
    with TerminalRun("prepare", captions, "--num-workers", 1, rows=70) as run:
        yield run.wait_for(SPLIT)


def test_enter_accepts_every_proposal(captions: Path, wizard: TerminalRun) -> None:
    assert "4 shards" in wizard.text
    wizard.press(ENTER).wait_for(TYPE)
    assert "first sample: shard_000.tar/000000" in wizard.text
    assert "jpg json txt       12       4  shard_000.tar/000000" in wizard.text
    assert "[80%, 90%]" in wizard.text, "the split as a table, before anything is written"
    wizard.press(ENTER).wait_for(FROM).press(ENTER).wait_for("image (image) from")
    wizard.press(ENTER).wait_for("caption (text) from").press(ENTER).wait_for(WRITE)
    assert "as a CaptioningSample: shard_000.tar/000000" in wizard.text
    assert "float32 (3, 16, 24)" in wizard.text
    assert "decoding the first sample…" in wizard.raw
    assert "decoding the first sample…" not in wizard.text, "the line of a step that is done is erased"
    assert not (captions / ".nv-meta/.info.json").exists()
    assert wizard.press(ENTER).finish() == 0
    assert "prepared" in wizard.text
    assert list(read_yaml(captions, "split.yaml")["split_parts"]) == ["train", "val", "test"]
    assert read_yaml(captions, "dataset.yaml")["field_map"] == {"image": "jpg", "caption": "txt"}


def test_enter_accepts_generated_code(tmp_path: Path) -> None:
    write_captions(
        tmp_path, parts=lambda number: {"0.jpg": (jpg := caption_parts(number)["jpg"]), "1.jpg": jpg} | TEXTS
    )
    with TerminalRun("prepare", tmp_path, "--num-workers", 1, rows=70) as wizard:
        wizard.wait_for(SPLIT).press(ENTER).wait_for(TYPE)
        assert "note: InterleavedSample keeps the whole sample" in wizard.text
        wizard.press(ENTER).wait_for(FROM)
        assert "generated code" in wizard.text
        wizard.press(ENTER).wait_for(WRITE)
        assert wizard.press(ENTER).finish() == 0
    assert "remaining = iter(images)" in (tmp_path / ".nv-meta/sample_loader.py").read_text()


def test_arrow_keys_choose_and_texts_can_be_edited(captions: Path, wizard: TerminalRun) -> None:
    wizard.press(DOWN, DOWN, DOWN, ENTER).wait_for(TYPE)  # all train
    wizard.press(DOWN, UP, ENTER).wait_for(FROM).press(ENTER).wait_for("image (image) from jpg")
    wizard.press(RIGHT, *",png", LEFT, LEFT, LEFT, "m", ENTER).wait_for("image (image) from jpg,mpng")
    wizard.wait_for("caption (text) from txt").press(*"json[caption", ENTER).wait_for("character")
    lines = wizard.text.splitlines()
    prompt = next(number for number, line in enumerate(lines) if line.startswith("? caption (text) from json[caption"))
    assert "character" in lines[prompt - 1], "the fault of an answer stands next to its prompt"
    wizard.press("]", ENTER).wait_for(WRITE)
    assert "a gradient, number 0" in wizard.text
    assert wizard.press("y").finish() == 0
    assert set(read_yaml(captions, "split.yaml")["split_parts"]) == {"train", "val", "test"}
    assert read_yaml(captions, "split.yaml")["split_parts"]["val"] == []
    assert read_yaml(captions, "dataset.yaml")["field_map"] == {"image": "jpg,mpng", "caption": "json[caption]"}


def test_a_failing_field_map_shows_the_error_and_prompts_again(captions: Path, wizard: TerminalRun) -> None:
    wizard.press(ENTER).wait_for(TYPE).press(ENTER).wait_for(FROM).press(ENTER).wait_for("image (image) from")
    wizard.press(ENTER).wait_for("caption (text) from")
    assert "inside json: json[caption], json[id]" in wizard.text
    wizard.press(*"json[title]", ENTER).wait_for("The sample cannot be built with this field map.")
    assert "json has no 'title', only" in wizard.text
    assert "lint --fix" not in wizard.text, "nothing is written yet that could be fixed"
    wizard.press(ENTER).wait_for("image (image) from jpg", times=2)
    wizard.press(ENTER).wait_for("caption (text) from json[title]", times=2)
    wizard.press(*"txt", ENTER).wait_for(WRITE)
    assert wizard.press("y").finish() == 0
    assert read_yaml(captions, "dataset.yaml")["field_map"] == {"image": "jpg", "caption": "txt"}


def test_a_typed_ratio_replaces_the_proposed_one_and_may_be_spelled_in_several_ways(
    captions: Path, wizard: TerminalRun
) -> None:
    wizard.press(UP, UP, ENTER).wait_for("Ratio of train, val and test 8,1,1")
    wizard.press(*"50/x", ENTER).wait_for("a number from 0 up")
    wizard.press("\x7f", *"50", ENTER).wait_for(TYPE)
    wizard.press(UP, ENTER).wait_for(WRITE)  # no dataset.yaml
    assert wizard.press("y").finish() == 0
    assert read_yaml(captions, "split.yaml")["split_parts"] == {
        "train": ["shard_{000..001}.tar"],
        "val": ["shard_{002..003}.tar"],
    }
    assert not (captions / ".nv-meta/dataset.yaml").exists()


def test_few_shards_can_be_split_by_samples(captions: Path, wizard: TerminalRun) -> None:
    wizard.press(DOWN, ENTER).wait_for("Whole shards miss this ratio.")
    assert "train            2  41.0 kB  80.0 %  50.0 %" in wizard.text, "asked and exact shares"
    wizard.wait_for("» by samples").press(ENTER).wait_for(TYPE).wait_for("[80%, 90%]").press(UP, ENTER).wait_for(WRITE)
    assert "warning: part 'val' is empty: the shards have too few samples" in wizard.text
    assert "split: train 8 samples (66.7 %, 80.0 % asked), val 0 samples (0.0 %, 10.0 % asked)" in wizard.text
    assert wizard.press("y").finish() == 0
    assert read_yaml(captions, "split.yaml")["sample_ranges"]["val"] == ["80%", "90%"]


def test_patterns_that_match_nothing_prompt_again(captions: Path, wizard: TerminalRun) -> None:
    wizard.press(UP, ENTER).wait_for("Part and pattern")
    wizard.wait_for("train:shard_.*").press(*"train:s_.*", ENTER).wait_for("matches no shard")
    wizard.press(*4 * ["\x7f"], *"shard_.*", ENTER).wait_for("train:shard_.*: 4 shards of 4")
    wizard.wait_for("Part and pattern (empty to finish)").press(ENTER).wait_for(TYPE).press(UP, ENTER).wait_for(WRITE)
    assert wizard.press("y").finish() == 0
    assert read_yaml(captions, "split.yaml")["split_parts"] == {"train": ["shard_{000..003}.tar"]}


def test_fields_from_own_code(captions: Path, wizard: TerminalRun) -> None:
    wizard.press(ENTER).wait_for(TYPE).press(ENTER).wait_for(FROM).press(DOWN, ENTER).wait_for(WRITE)
    assert "sample_loader.py:" in wizard.text
    assert wizard.press("y").finish() == 0
    assert (captions / ".nv-meta/sample_loader.py").exists()


def test_keys_typed_during_a_wait_are_neither_shown_nor_answers(captions: Path, tmp_path: Path) -> None:
    go_on = tmp_path / "go_on"
    wait = (
        "import pathlib, sys, time\nfrom energon_cli.commands.make.prepare import choices\n"
        "view = choices.view_first_sample\n"
        f"def slow(*given, **named):\n    while not pathlib.Path({str(go_on)!r}).exists():\n        time.sleep(0.01)\n"
        "    return view(*given, **named)\n"
        "choices.view_first_sample = slow; from energon_cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    program = (sys.executable, "-c", wait)
    with TerminalRun("prepare", captions, "--num-workers", 1, rows=70, program=program) as wizard:
        wizard.wait_for(SPLIT).press(ENTER).wait_for(TYPE).press(DOWN).wait_for("» CrudeWeb")
        wizard.press(DOWN, DOWN).wait_for("» ImageSample").press(ENTER)  # nothing else is asked
        wizard.wait_for("decoding the first sample…").press(*"yy#", ENTER, ENTER)
        go_on.touch()
        wizard.wait_for(WRITE)
        assert "yy" not in wizard.raw
        assert wizard.press("q").finish() == 1
    assert not (captions / ".nv-meta/dataset.yaml").exists()


def test_a_folder_of_captions_is_prepared_with_three_keys(tmp_path: Path) -> None:
    write_captions(tmp_path, parts=lambda number: {name: caption_parts(number)[name] for name in ("jpg", "txt")})
    with TerminalRun("prepare", tmp_path, "--num-workers", 1, rows=70) as wizard:
        wizard.wait_for(SPLIT).press(ENTER).wait_for(TYPE).press(ENTER).wait_for(WRITE)
        assert wizard.press(ENTER).finish() == 0
    assert read_yaml(tmp_path, "dataset.yaml")["field_map"] == {"image": "jpg", "caption": "txt"}


def test_types_that_lack_parts_are_behind_another_entry(captions: Path, wizard: TerminalRun) -> None:
    wizard.press(ENTER).wait_for(TYPE).press(UP, UP).wait_for("» more types, for which parts are missing (5) …")
    assert "VidQASample" not in wizard.text
    wizard.press(ENTER).wait_for("VidQASample").press(ESCAPE).wait_for("» more types").press(ENTER)
    wizard.wait_for("» ConversationSample").press(*3 * [DOWN]).wait_for("» VidQASample").press(ENTER).wait_for(FROM)
    wizard.press(ESCAPE).wait_for("» more types").press(ENTER).wait_for("» VidQASample").press(CTRL_D)
    assert wizard.finish() == 1


def test_a_ratio_that_shards_miss_names_the_command_that_writes_others(captions: Path, wizard: TerminalRun) -> None:
    wizard.press(DOWN, ENTER).wait_for("Whole shards miss this ratio.").press(ESCAPE).wait_for("» 8,1,1    train")
    wizard.press(ENTER).wait_for("» by samples").press(DOWN).wait_for("» leave").press(ENTER)
    assert wizard.finish() == 1
    assert f"energon reshard {captions} {captions}-split --split-ratio 8,1,1" in wizard.raw, "in one line, to copy"
    assert wizard.text.rstrip().endswith("nothing was written")


@pytest.mark.parametrize("key", [ESCAPE, "q", CTRL_D], ids=["esc", "q", "ctrl-d"])
def test_keys_that_leave_write_nothing_and_say_so(captions: Path, wizard: TerminalRun, key: str) -> None:
    before = files_of(captions)
    assert "Enter accepts, q leaves" in wizard.text
    assert wizard.press(key).finish() == 1
    assert "nothing was written" in wizard.text
    assert files_of(captions) == before


def test_ctrl_d_leaves_a_text_prompt(captions: Path, wizard: TerminalRun) -> None:
    wizard.press(UP, UP, ENTER).wait_for("Ctrl-D leaves").press(*"q9", CTRL_D)
    assert wizard.finish() == 1
    assert "nothing was written" in wizard.text


def words_of_prompts(captions: Path, columns: int) -> set[str]:
    """Return the words on the screen of a dialogue with long lines, without paths and pictures."""
    with TerminalRun("prepare", captions, "--num-workers", 1, "--dry-run", rows=110, columns=columns) as wizard:
        wizard.wait_for(SPLIT).press(DOWN, ENTER).wait_for("Whole shards miss").press(ENTER).wait_for(TYPE)
        wizard.press(UP, UP, ENTER).wait_for("VidQA")
        words = {*wizard.text.split()}
        wizard.press(ESCAPE).wait_for("» more").press(*8 * [UP]).wait_for("» Captioning").press(ENTER).wait_for(FROM)
        wizard.press(ENTER).wait_for("image (image) from").press(*"zz", ENTER).wait_for("no sample has")
        words |= {*wizard.text.split()}
        wizard.press(*2 * ["\x7f"], *"jpg", ENTER).wait_for("caption (text) from").press(ENTER)
        assert wizard.finish() == 0
        return {word for word in words | {*wizard.text.split()} if not {*word} & {"/", "▀", "…"}}


@pytest.mark.parametrize("columns", [60, pytest.param(120, marks=pytest.mark.slow)])
def test_lines_are_broken_between_words_only(captions: Path, columns: int) -> None:
    broken = words_of_prompts(captions, columns) - words_of_prompts(captions, 300)
    assert not [word for word in broken if word.strip(":") not in str(captions)]


@pytest.mark.parametrize("arguments", [("lint", "x", "--level", "all"), ("info", "no folder")], ids=["usage", "error"])
def test_errors_are_broken_between_words_only(arguments: tuple[str, ...]) -> None:
    words = []
    for columns in (30, 300):
        with TerminalRun(*arguments, columns=columns) as run:
            run.finish()
            words.append(run.text.lower().split("error: ")[1].split("  at: ")[0].split())
    assert words[0] == words[1]


def test_a_command_line_in_an_error_stays_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(b"x")
    with TerminalRun("info", tmp_path, columns=60) as run:
        run.finish()
    assert f"energon_cli import {tmp_path} {tmp_path}-dataset --yes" in run.raw


@pytest.mark.parametrize("arguments", [(), ("--yes",)], ids=["prompts", "yes"])
def test_preparing_needs_no_torch(captions: Path, arguments: tuple[str, ...]) -> None:
    check = (
        "import sys; from energon_cli.main import main; code = main(sys.argv[1:])\n"
        "print('torch is imported:', 'torch' in sys.modules); sys.exit(code)"
    )
    program = (sys.executable, "-c", check)
    with TerminalRun("prepare", captions, "--num-workers", 1, *arguments, rows=70, program=program) as wizard:
        if not arguments:
            wizard.wait_for(SPLIT).press(ENTER).wait_for(TYPE).press(ENTER).wait_for(FROM).press(ENTER)
            wizard.wait_for("image (image) from").press(ENTER).wait_for("caption (text) from").press(ENTER)
            wizard.wait_for(WRITE).wait_for("float32 (3, 16, 24)").press(ENTER)
        assert wizard.finish() == 0
        assert "torch is imported: False" in wizard.text


def test_enters_in_one_paste_do_not_confirm(captions: Path, wizard: TerminalRun) -> None:
    wizard.press(ENTER).wait_for(TYPE).press(UP).wait_for("» none")
    wizard.press(3 * ENTER).wait_for(WRITE).press("q")  # the first one answers the menu
    assert wizard.finish() == 1
    assert not (captions / ".nv-meta/.info.json").exists()


def test_escape_returns_to_each_prompt_with_the_earlier_answer(captions: Path, wizard: TerminalRun) -> None:
    wizard.press(DOWN, DOWN, DOWN, ENTER).wait_for(TYPE).press(ENTER).wait_for(FROM).press(ENTER)
    wizard.wait_for("image (image) from").press(ENTER).wait_for("caption (text) from")
    wizard.press(ESCAPE).wait_for("image (image) from jpg", times=2).press(ESCAPE).wait_for("» parts, or values")
    wizard.press(ESCAPE).wait_for("» CaptioningSample").press(ESCAPE).wait_for("» 1,0,0    all train")
    wizard.press(ENTER).wait_for("» CaptioningSample").press(UP).wait_for("» none").press(ENTER).wait_for(WRITE)
    wizard.press(ESCAPE).wait_for("» none").press(ENTER).wait_for(WRITE)
    assert wizard.press("y").finish() == 0
    assert read_yaml(captions, "split.yaml")["split_parts"]["val"] == []
    assert not (captions / ".nv-meta/dataset.yaml").exists()


def test_escape_leaves_the_prompts_of_a_custom_split_for_its_menu(captions: Path, wizard: TerminalRun) -> None:
    wizard.press(UP, UP, ENTER).wait_for("Ratio of train, val and test").press(ESCAPE).wait_for("» custom ratio")
    wizard.press(DOWN, ENTER).wait_for("Part and pattern").press(ESCAPE).wait_for("» by patterns")
    wizard.press(UP, ENTER).wait_for("Ratio of train").press(*"3,1", ENTER).wait_for(TYPE)
    wizard.press(ESCAPE).wait_for("» custom ratio").press(ENTER).wait_for("Ratio of train, val and test 3,1", times=2)


def test_no_at_the_end_returns_to_the_prompts_and_keeps_the_answers(captions: Path, wizard: TerminalRun) -> None:
    wizard.press(DOWN, DOWN, DOWN, ENTER).wait_for(TYPE).press(UP, ENTER).wait_for(WRITE)
    wizard.press("n").wait_for("» 1,0,0    all train").press(UP).wait_for("» 9,1,0").press(ENTER)
    wizard.wait_for("Whole shards miss this ratio.").press(UP, ENTER).wait_for("» none")
    assert wizard.press(ENTER).wait_for(WRITE).press("y").finish() == 0
    assert read_yaml(captions, "split.yaml")["split_parts"]["val"] == ["shard_003.tar"]


def test_tab_completes_parts_and_values_inside_json(captions: Path, wizard: TerminalRun) -> None:
    wizard.press(ENTER).wait_for(TYPE).press(ENTER).wait_for(FROM).press(ENTER).wait_for("image (image) from")
    wizard.press("j", "p", TAB).wait_for("from jpg").press(ENTER).wait_for("caption (text) from")
    wizard.press(*"json[c", TAB).wait_for("from json[caption]").press(ENTER).wait_for(WRITE)
    assert wizard.press("y").finish() == 0
    assert read_yaml(captions, "dataset.yaml")["field_map"] == {"image": "jpg", "caption": "json[caption]"}


def test_leaving_at_the_end_writes_nothing(captions: Path, wizard: TerminalRun) -> None:
    before = files_of(captions)
    wizard.press(ENTER).wait_for(TYPE).press(UP, ENTER).wait_for(WRITE)
    assert wizard.press("q").finish() == 1
    assert "nothing was written" in wizard.text
    assert files_of(captions) == before


@pytest.mark.parametrize("step", [0, 1, 2])
def test_ctrl_c_at_any_prompt_exits_130_and_writes_nothing(captions: Path, wizard: TerminalRun, step: int) -> None:
    before = files_of(captions)
    for question in (TYPE, FROM)[:step]:
        wizard.press(ENTER).wait_for(question)
    assert wizard.press(CTRL_C).finish(timeout_s=5) == 130
    assert "Traceback" not in wizard.raw
    assert files_of(captions) == before


def test_a_split_by_shard_names_comes_first(tmp_path: Path) -> None:
    write_captions(tmp_path, shards=2, names="train_{:03d}.tar")
    write_captions(tmp_path, shards=1, names="val_{:03d}.tar", parts=lambda number: caption_parts(number + 50))
    with TerminalRun("prepare", tmp_path, "--skip-dataset-yaml", "--num-workers", 1) as run:
        run.wait_for("by shard names: train (2 shards), val (1 shard)").press(ENTER).wait_for(WRITE)
        assert run.press(ENTER).finish() == 0
    assert read_yaml(tmp_path, "split.yaml")["split_parts"] == {
        "train": ["train_{000..001}.tar"],
        "val": ["val_000.tar"],
    }


def test_a_menu_selects_the_changes_of_a_prepared_dataset(prepared: Path) -> None:
    split = read_yaml(prepared, "split.yaml")
    with TerminalRun("prepare", prepared, "--num-workers", 1) as run:
        run.wait_for(AGAIN).press(ENTER).wait_for(WRITE)
        assert run.press(ENTER).finish() == 0
        assert "kept as before: the split and dataset.yaml" in run.text
    with TerminalRun("prepare", prepared, "--num-workers", 1, rows=60) as run:
        run.wait_for(AGAIN).press(DOWN, ENTER).wait_for(TYPE)
        run.press(DOWN).wait_for("» CrudeWebdataset").press(ENTER).wait_for(WRITE)
        assert run.press(ENTER).finish() == 0
    assert read_yaml(prepared, "dataset.yaml")["__class__"] == "CrudeWebdataset"
    assert read_yaml(prepared, "split.yaml") == split


def test_no_color_is_respected(captions: Path) -> None:
    with TerminalRun("prepare", captions, "--num-workers", 1, environment={"NO_COLOR": "1"}) as run:
        run.wait_for(SPLIT)
        assert not re.search(r"\x1b\[[0-9;]*(3[0-9]|4[0-9]|9[0-7])m", run.raw), "no colour is set"
        run.press(CTRL_C).finish()


def test_no_line_of_a_menu_is_cut_on_a_terminal_of_80_columns() -> None:
    for spec in SAMPLE_TYPES.values():
        label = menu_label(spec)
        assert len(label) <= 76
        assert all(name in label for name in spec.required)


@pytest.mark.parametrize(
    ("shards", "pattern"),
    [
        (["shard_000.tar", "shard_011.tar"], "shard_.*"),
        (["a/0.tar", "b/0.tar"], ".*"),
        (["x+1.tar", "x+2.tar"], ".*"),
        (["only.tar"], "only.*"),
    ],
)
def test_patterns_are_proposed_from_shard_names(shards: list[str], pattern: str) -> None:
    assert proposed_pattern(shards) == pattern
    assert split_by_patterns(shards, [("train", pattern)]).parts["train"] == tuple(shards)


@pytest.mark.parametrize("environment", [{"LANG": "C", "LC_ALL": "C"}, {"TERM": "linux"}], ids=str)
@pytest.mark.sampled(2)
def test_an_ascii_terminal_gets_ascii(captions: Path, environment: dict[str, str]) -> None:
    with TerminalRun("prepare", captions, "--num-workers", 1, rows=70, environment=environment) as wizard:
        wizard.wait_for("(up down choose, Enter accepts, q leaves)").press(DOWN, ENTER).wait_for("from ... to")
        wizard.wait_for("Whole shards miss").press(UP, ENTER).wait_for(TYPE)
        assert "> CaptioningSample" in wizard.text
        assert wizard.press(ESCAPE).wait_for("by patterns of shard names ...").raw.isascii()
        wizard.wait_for("> 8,1,1").press(UP)
        wizard.press(ENTER).wait_for(TYPE).press(ENTER).wait_for(FROM)
        assert wizard.raw.isascii()
