"""Annotations that are named without their folder find their pictures, or the error names the folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loader.convert.sources.detect import open_source
from loader.convert.tables.source_options import SourceOptions
from loader.errors import ConfigError
from tests.imports import imported
from tests.layouts.cards_tools import cvat_for_images, fiftyone_detections, labelme
from tests.layouts.layout import Build


@pytest.mark.parametrize(
    ("build", "file", "box"),
    [
        (cvat_for_images, "annotations.xml", [1.5, 1, 1.5, 3]),
        (fiftyone_detections, "samples.json", [0.8, 1.2, 4, 3]),
    ],
)
def test_a_document_finds_its_pictures(build: Build, file: str, box: list[float], tmp_path: Path) -> None:
    build(tmp_path / "in")
    source = open_source(str(tmp_path / "in" / file), kind=None, options=SourceOptions())
    samples, report = imported(source, tmp_path / "out")
    assert report.account.is_complete
    boxes = [json.loads(parts["json"])["objects"] for parts in samples.values() if parts["jpg"]]
    assert max(str(each[0]["bbox"]) for each in boxes if each) == str(box)


def test_annotations_of_one_picture_are_refused_with_the_command_for_their_folder(tmp_path: Path) -> None:
    labelme(tmp_path / "in")
    with pytest.raises(ConfigError, match="of one picture, as LabelMe") as error:
        open_source(str(tmp_path / "in" / "street_1.json"), kind=None, options=SourceOptions())
    assert f"energon import {tmp_path / 'in'} " in str(error.value)


def test_xml_about_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text('<feed><entry id="1"/><entry id="2"/></feed>')
    with pytest.raises(ConfigError, match="expected an XML document about several pictures"):
        open_source(str(tmp_path / "a.xml"), kind=None, options=SourceOptions())
