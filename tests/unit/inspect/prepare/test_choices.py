"""First samples of a folder, and the choices of a prepare that they suggest."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from loader.errors import FormatError
from loader.format.documents import SAMPLE_TYPES
from loader.inspect import (
    Choices,
    FieldQuestion,
    OpenChoices,
    check_field,
    choice_files,
    choice_notes,
    coverage_warnings,
    field_hint,
    field_map_warnings,
    inspect_folder,
    propose_choices,
    view_first_sample,
)
from loader.prepare import DatasetYaml, SplitRequest, parse_ratio
from loader.prepare.contents import only_field_map
from loader.storage import FileInfo
from tests.cli.make_dataset import write_captions
from tests.e2e.dataset_tree import write_tar
from tests.imports import picture
from tests.tables import write_lines, write_rows
from tests.unit.av.encoded_media import encode
from tests.unit.inspect.prepared import CAPTIONING, prepare_captions

CRUDE = next(spec for spec in SAMPLE_TYPES.values() if spec.crude)


def test_the_first_samples_of_a_folder(tmp_path: Path) -> None:
    folder = inspect_folder(str(write_captions(tmp_path / "captions")))
    assert (len(folder.sizes), folder.prepared, folder.has_split) == (4, False, False)
    assert (folder.contents.key, folder.contents.samples) == ("shard_000.tar/000000", 12)
    assert {"jpg", "txt"} <= set(folder.contents.part_names)
    assert folder.contents.parts["jpg"][:2] == b"\xff\xd8"


def test_pictures_under_an_unknown_name_stay_in_the_proposed_samples(tmp_path: Path) -> None:
    write_tar(tmp_path / "a.tar", [("0.img", picture(1, "PNG")), ("0.txt", b"a cat")])
    folder = inspect_folder(str(tmp_path))
    choices = propose_choices(OpenChoices(folder))
    assert choices.dataset_yaml == DatasetYaml(spec=CRUDE)
    assert any("part 'img' is a PNG picture" in note for note in choice_notes(folder, choices))


def test_damaged_shards_end_the_scan_and_are_named(tmp_path: Path) -> None:
    path = write_captions(tmp_path / "captions")
    (path / "shard_001.tar").write_bytes(b"no tar" * 200)
    with pytest.raises(FormatError, match=r"shard_001\.tar"):
        inspect_folder(str(path))


def test_the_lines_of_a_folder_propose_a_field_map(tmp_path: Path) -> None:
    write_lines(tmp_path / "b.jsonl", range(600))
    (tmp_path / "a.jsonl").write_bytes(b'{"id": 1}\n')
    before = sorted(tmp_path.rglob("*"))
    folder = inspect_folder(str(tmp_path))
    assert sorted(tmp_path.rglob("*")) == before, "no index is written"
    assert (folder.contents.key, folder.contents.part_counts) == ("a.jsonl/0", {"json": 601})
    chosen = propose_choices(OpenChoices(folder)).dataset_yaml
    assert chosen is not None
    assert (chosen.spec.name, chosen.field_map) == ("TextSample", {"text": "json[text]"})
    [warning] = coverage_warnings(chosen, folder.contents)
    assert warning.startswith("field 'text' (json[text]) is missing in 1 of ")
    assert warning.endswith(" json parts inspected, first a.jsonl/0")
    wrong = DatasetYaml(spec=chosen.spec, field_map={"text": "text"})
    assert field_map_warnings(wrong, folder) == [
        "field 'text' comes from 'text', but the 601 samples have only json; did you mean 'json[text]'?"
    ]


def test_the_rows_of_a_folder_check_a_field_map(tmp_path: Path) -> None:
    write_rows(tmp_path / "rows.parquet", range(9))
    folder = inspect_folder(str(tmp_path))
    assert (folder.contents.key, folder.contents.part_names) == ("rows.parquet/0", ["id", "text", "image", "turns"])
    assert propose_choices(OpenChoices(folder)).dataset_yaml == DatasetYaml(spec=CRUDE)
    text = SAMPLE_TYPES["TextSample"]
    right, wrong, missing = (DatasetYaml(spec=text, field_map={"text": name}) for name in ("text", "id", "texxt"))
    assert view_first_sample(folder, right).fault is None
    assert "expected text, found int" in str(view_first_sample(folder, wrong).fault)
    [warning] = field_map_warnings(missing, folder)
    assert warning.endswith("have only id, text, image, turns; did you mean 'text'?")


def test_marks_of_images_are_no_fault_of_a_chat_about_a_video(tmp_path: Path) -> None:
    turns = [{"from": "human", "value": "<image>What?"}, {"from": "gpt", "value": "A walk."}]
    chat = json.dumps({"conversations": turns}).encode()
    write_tar(tmp_path / "a.tar", [("0.mp4", encode(frames=5)), ("0.json", chat)])
    folder = inspect_folder(str(tmp_path))
    chosen = DatasetYaml(spec=SAMPLE_TYPES["ConversationSample"], field_map={"turns": "json", "videos": "mp4"})
    assert field_map_warnings(chosen, folder) == []


def test_every_open_choice_has_a_proposal(tmp_path: Path) -> None:
    folder = inspect_folder(str(write_captions(tmp_path / "captions")))
    choices = propose_choices(OpenChoices(folder))
    assert choices.split is not None
    assert choices.split.ratio == parse_ratio("8,1,1")
    assert choices.dataset_yaml is not None
    assert choices.dataset_yaml.spec is CAPTIONING
    assert choices.dataset_yaml.field_map is not None
    assert choices.dataset_yaml.field_map["image"] == "jpg"
    assert "sample_type" in choice_files(folder, choices, name="dataset.yaml")["dataset.yaml"]
    settled = propose_choices(OpenChoices(folder, split=SplitRequest(ratio={"train": 1.0}), spec=CRUDE))
    assert settled == Choices(split=SplitRequest(ratio={"train": 1.0}), dataset_yaml=DatasetYaml(spec=CRUDE))
    assert propose_choices(OpenChoices(folder, ask_split=False, ask_dataset_yaml=False)) == Choices()


def test_samples_are_split_where_whole_shards_miss_the_ratio_by_more_than_ten_points(tmp_path: Path) -> None:
    folder = inspect_folder(str(write_captions(tmp_path / "captions")))

    def proposed(*sizes: int, samples: int | None = None, by_samples: bool | None = None) -> SplitRequest:
        shards = [FileInfo(name=f"{index}.tar", size_bytes=size, mtime_ns=0) for index, size in enumerate(sizes)]
        sized = replace(folder, search=replace(folder.search, shards=tuple(shards)))
        counts = None if samples is None else dict.fromkeys(sized.sizes, samples)
        given = OpenChoices(sized, samples=counts, by_samples=by_samples)
        return given.proposed_split

    assert [proposed(*count * [5]).by_samples for count in (1, 2, 3, 6, 7, 10)] == [False, *3 * [True], False, False]
    assert not proposed(80, 10, 10).by_samples, "bytes count, not shards"
    assert proposed(*9 * [1], 91).by_samples
    assert proposed(5, 5, 5, samples=10).by_samples
    assert not proposed(5, 5, 5, samples=3).by_samples, "a part would be empty"
    assert not proposed(5, 5, 5, by_samples=False).by_samples
    assert proposed(*10 * [5], by_samples=True).by_samples
    by_names = SplitRequest(patterns=(("train", ".*"),))
    counted = OpenChoices(folder, split=by_names, samples=dict.fromkeys(folder.sizes, 3))
    assert propose_choices(counted).split == by_names
    by_ratio = OpenChoices(folder, split=SplitRequest(ratio={"train": 9.0, "val": 1.0}))
    [why, who] = choice_notes(
        folder, Choices(split=propose_choices(by_ratio).split, dataset_yaml=DatasetYaml(spec=CRUDE))
    )
    assert why.startswith(
        "the samples of each shard are split: whole shards would come to train 75.0 % (90.0 % requested)"
    )
    assert who == "megatron-energon itself reads splits of whole shards only: --split-by shards keeps whole shards"


@pytest.mark.parametrize(
    ("name", "parts", "field_map"),
    [
        ("ImageClassification", {"jpg": b"", "cls": b"3"}, {"image": "jpg", "label": "cls"}),
        ("Image", {"jpg": b"", "json": b"{}"}, {"image": "jpg"}),
        ("Image", {"jpg": b"", "seg.png": b""}, None),
        ("Captioning", {"jpg": b"", "txt": b"a cat", "json": b'{"caption": "a cat"}'}, None),
        ("VQA", {"jpg": b"", "q.txt": b"why?", "a.txt": b"so"}, None),
        ("Text", {"jpg": b""}, None),
    ],
)
def test_a_field_map_is_settled_only_if_no_other_one_is_possible(
    tmp_path: Path, name: str, parts: dict[str, bytes], field_map: dict[str, str] | None
) -> None:
    named = {part: picture(1) if part.endswith(("jpg", "png")) else data for part, data in parts.items()}
    write_captions(tmp_path, shards=1, parts=lambda _: named)
    assert only_field_map(SAMPLE_TYPES[f"{name}Sample"], inspect_folder(str(tmp_path)).contents.seen) == field_map


def test_notes_name_what_a_user_may_not_expect(tmp_path: Path) -> None:
    folder = inspect_folder(str(write_captions(tmp_path / "captions")))
    [crude, shares] = choice_notes(folder, Choices(split=SplitRequest(ratio=parse_ratio("8,1,1"))))
    assert crude.startswith("no dataset.yaml was requested")
    assert shares.startswith("shards are never divided, so 4 shards come to train 50.0 % (80.0 % requested)")
    [code] = choice_notes(folder, Choices(dataset_yaml=DatasetYaml(spec=CAPTIONING)))
    assert code == "complete .nv-meta/sample_loader.py: it fills the fields of CaptioningSample"
    prepared = inspect_folder(prepare_captions(tmp_path / "prepared"))
    assert choice_notes(prepared, Choices()) == ["kept as before: the split and dataset.yaml"]


def test_a_field_map_is_tried_on_the_first_sample(tmp_path: Path) -> None:
    folder = inspect_folder(str(write_captions(tmp_path / "captions")))
    right = DatasetYaml(spec=CAPTIONING, field_map={"image": "jpg", "caption": "txt"})
    wrong = DatasetYaml(spec=CAPTIONING, field_map={"image": "jpeg", "caption": "txt"})
    assert field_map_warnings(right, folder) == []
    [warning] = field_map_warnings(wrong, folder)
    assert "field 'image' comes from 'jpeg'" in warning
    assert "did you mean 'jpg'?" in warning
    view = view_first_sample(folder, right)
    assert (view.title, view.fault) == ("as a CaptioningSample: shard_000.tar/000000", None)
    assert [field.name for field in view.fields] == ["image", "caption"]
    image = DatasetYaml(spec=SAMPLE_TYPES["ImageSample"], field_map={"image": "jpg"})
    assert view_first_sample(folder, image).title == "as an ImageSample: shard_000.tar/000000"
    assert view_first_sample(folder, wrong).fault is not None


def test_the_expression_of_a_field_is_checked() -> None:
    question = FieldQuestion(
        spec=CAPTIONING,
        field=CAPTIONING.field("caption"),
        proposal="txt",
        part_names=["jpg", "json", "txt"],
        json_values=["json[caption]", "json[title]"],
    )
    assert check_field(question, "txt") is None
    assert check_field(question, "") == "CaptioningSample requires 'caption'"
    assert check_field(question, "text") == "no sample has a part 'text'; did you mean 'txt'?"
    assert field_hint(question) == "parts: jpg, json, txt; inside json: json[caption], json[title]"
