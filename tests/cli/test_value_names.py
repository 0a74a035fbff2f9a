"""Names of values: those that ``energon stats`` prints are taken by all commands, and the hints work as printed."""

from __future__ import annotations

import io
import json
import shlex
from pathlib import Path

import pytest
from PIL import Image

from energon_cli import dataset_options
from loader.dataset.opening import folder_at
from loader.dataset.query import SampleQuery, find_samples
from loader.errors import ConfigError
from loader.inspect import stats
from loader.inspect.stats import ValueEstimate
from tests.cli.run_energon import Done, RunEnergon
from tests.e2e.dataset_tree import shard_path, write_shard

COUNT = 12


def picture(width: int, kind: str = "JPEG") -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (width, 8)).save(file, kind)
    return file.getvalue()


def parts(number: int) -> dict[str, bytes]:
    document = {
        "label": ["cat", "dog"][number % 2],
        "score": number / 8,
        "a": {"b": number},
        "a.b": -number,
        "first-name": f"n{number % 3}",
        'quo"te [x]': number,
        "objects": [{"label": "car"}],
    }
    return {
        "jpg": picture(20 + number),
        "left-eye.jpg": picture(9),
        "json": json.dumps(document).encode(),
        "txt": b"a few words"[: number + 1],
    }


@pytest.fixture
def dataset(tmp_path: Path, energon: RunEnergon) -> Path:
    path = tmp_path / "my pictures"
    for shard in range(2):
        write_shard(shard_path(path, shard), {f"{n:02}": parts(n) for n in range(6 * shard, 6 * shard + 6)})
    assert energon("prepare", path, "--non-interactive", "--split-ratio", "1,1").code == 0
    return path


def names_of(energon: RunEnergon, dataset: Path) -> list[str]:
    report = energon("stats", dataset, "--json").json
    names = [one["name"] for one in (*report["numbers"].values(), *report["texts"].values())]
    table = energon("stats", dataset).out.replace("\n", "")
    assert all(name[:12] in table for name in names)
    return names


def follow_hint(energon: RunEnergon, done: Done) -> Done:
    """Run the command line that a message names."""
    line = next(line for line in done.err.splitlines() if "energon stats " in line)
    return energon(*shlex.split(line[line.index("energon stats ") :])[1:])


def test_each_printed_name_is_taken_by_each_flag(dataset: Path, tmp_path: Path, energon: RunEnergon) -> None:
    names = names_of(energon, dataset)
    assert {"jpg.width", 'part("left-eye.jpg").width', "json[a][b]", "json[a.b]", "json[label]", "txt.chars"} <= {
        *names
    }
    every = " and ".join(f"known({name})" for name in names)
    done = energon("extract", dataset, "-o", tmp_path / "out", "--where", every, "--json")
    assert done.code == 0, done.err
    assert done.json["samples"] == COUNT
    for number, name in enumerate(["json[score]", "jpg.width", "json[a.b]", 'part("left-eye.jpg").bytes', "bytes"]):
        assert energon("reshard", dataset, tmp_path / f"sorted{number}", "--sort-by", name).code == 0
        assert energon("split", dataset, "--check", "--group-by", name).code in {0, 1}
    done = energon("stats", dataset, "--write", ",".join(names))
    assert done.code == 0, done.err
    assert all(f": {name} of each sample" in done.err for name in names)
    opened = folder_at(dataset)  # columns have all of them, and nothing is computed
    assert len(find_samples(opened, SampleQuery(where=every))) == COUNT
    assert len(find_samples(opened, SampleQuery(where="json[a.b] < 0 and json[a][b] > 0"))) == COUNT - 1


@pytest.mark.parametrize(
    ("where", "samples"),
    [
        ("json[label] == 'cat'", 6),
        ("json.label == 'cat'", 6),
        ("json_label == 'cat'", 6),
        ("label == 'cat'", 6),
        ("json[objects][0][label] == 'car' and score >= 1", 4),
        ("jpg_width < 22", 2),
        ("jpg.bytes > 0 and size('txt') == 3", 1),
        ("json['quo\"te [x]'] == 3", 1),
        ("first-name == 'n0'", None),
    ],
)
def test_a_condition_reads_what_is_no_column(
    dataset: Path, tmp_path: Path, energon: RunEnergon, where: str, samples: int | None
) -> None:
    done = energon("extract", dataset, "-o", tmp_path / "out", "--where", where, "--json")
    assert done.code == (0 if samples else 1)
    assert samples is None or done.json["samples"] == samples


def test_a_name_of_two_values_is_asked_back(dataset: Path, tmp_path: Path, energon: RunEnergon) -> None:
    for where, names in (
        ("width > 9", 'jpg.width, part("left-eye.jpg").width'),
        ("json.a.b > 3", "json[a.b], json[a][b]"),
    ):
        done = energon("extract", dataset, "-o", tmp_path / "out", "--where", where)
        assert done.code == 1
        assert f"several values are called {where.split()[0]!r}: {names}" in done.err
    assert "several values are called 'width'" in energon("split", dataset, "--check", "--group-by", "width").err


def test_the_hint_of_a_library_call_makes_the_column(dataset: Path, energon: RunEnergon) -> None:
    folder = folder_at(dataset)
    for where in ("json[label] == 'cat'", "score > 0", "width > 3", "jpg.height > 3"):
        with pytest.raises(ConfigError) as caught:
            find_samples(folder, SampleQuery(where=where))
        done = follow_hint(energon, Done(code=1, out="", err=str(caught.value)))
        assert done.code == 0, done.err
        if where != "width > 3":  # which two parts have
            assert len(find_samples(folder, SampleQuery(where=where)))
    assert len(find_samples(folder, SampleQuery(where="label == 'cat' and jpg.width > 3"))) == 6


def test_the_offer_after_computing_works_as_printed(dataset: Path, tmp_path: Path, energon: RunEnergon) -> None:
    done = energon("extract", dataset, "-o", tmp_path / "out", "--where", "json['quo\"te [x]'] > 3 and score > 1")
    assert "computed" in done.err
    assert follow_hint(energon, done).code == 0
    done = energon("extract", dataset, "-o", tmp_path / "out2", "--where", "json['quo\"te [x]'] > 3 and score > 1")
    assert "computed" not in done.err


def test_what_takes_long_needs_consent(
    dataset: Path, tmp_path: Path, energon: RunEnergon, monkeypatch: pytest.MonkeyPatch
) -> None:
    def estimate(_folder: object, names: list[object], *_: object, **__: object) -> ValueEstimate:
        return ValueEstimate(60.0, 64, tuple(names))  # type: ignore[arg-type]

    monkeypatch.setattr(stats, "estimate_values", estimate)
    for command in (
        ["extract", dataset, "-o", tmp_path / "out", "--where", "jpg.width > 3"],
        ["reshard", dataset, tmp_path / "out", "--sort-by", "jpg.width"],
        ["split", dataset, "--check", "--group-by", "jpg.width"],
        ["exclude", dataset, "--dry-run", "--where", "jpg.width < 22"],
        ["stats", dataset, "--where", "jpg.width < 22"],
    ):
        done = energon(*command)
        assert done.code == 2, command
        assert "takes about 60 s" in done.err
        assert "--yes" in done.err
        assert "--write jpg.width" in done.err
        assert not (tmp_path / "out").exists()
    assert energon("extract", dataset, "-o", tmp_path / "out", "--where", "jpg.width > 3", "--yes").code == 0


@pytest.mark.parametrize("answer", ["y", "n"])
def test_a_terminal_is_asked(
    dataset: Path, tmp_path: Path, energon: RunEnergon, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    monkeypatch.setattr(stats, "estimate_values", lambda *_, **__: ValueEstimate(60.0, 64, ()))
    monkeypatch.setattr(dataset_options, "is_terminal", lambda _: True)
    arguments = ("extract", dataset, "-o", tmp_path / "out", "--where", "jpg.width > 3", "--no-progress")
    done = energon(*arguments, answers=[answer])
    assert "None of 64 samples tried has jpg.width" in done.err
    assert (done.code, (tmp_path / "out").exists()) == ((0, True) if answer == "y" else (1, False))


def test_columns_of_other_values_keep_their_names(dataset: Path, energon: RunEnergon) -> None:
    done = energon("stats", dataset, "--write", "json[a.b],json[a][b],json[a.b]")
    assert "wrote column json_a_b: json[a.b]" in done.err
    assert "wrote column json_a_b_2: json[a][b]" in done.err
    assert sorted(folder_at(dataset).documents.column_names()) == ["json_a_b", "json_a_b_2"]


@pytest.mark.parametrize("name", ["json[label]", "json.label", "json_label", "label"])
def test_a_field_map_takes_each_spelling_and_keeps_the_printed_one(
    dataset: Path, energon: RunEnergon, name: str
) -> None:
    field_map = json.dumps({"image": "jpg", "caption": name})
    flags = ("--non-interactive", "--split-ratio", "1,1", "--sample-type", "CaptioningSample", "--force-overwrite")
    assert energon("prepare", dataset, *flags, "--field-map", field_map).code == 0
    file = dataset / ".nv-meta/dataset.yaml"
    assert "caption: json[label]" in file.read_text()
    file.write_text(file.read_text().replace("json[label]", name))
    assert "cat" in energon("preview", dataset, "-n", "1").out


def test_a_field_map_refuses_what_is_measured(dataset: Path, energon: RunEnergon) -> None:
    flags = ("--non-interactive", "--split-ratio", "1,1", "--sample-type", "CaptioningSample", "--force-overwrite")
    done = energon("prepare", dataset, *flags, "--field-map", '{"image": "jpg", "caption": "jpg.width"}')
    assert done.code == 1
    assert "jpg.width is measured" in done.err
