"""Lint counts the pictures that training reads unlike a viewer, and decodes later frames."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from loader.format.dataset_ref import DatasetRef
from loader.inspect.lint import LintRequest, run_lint
from tests.e2e.dataset_tree import write_tar

NOISE = np.random.default_rng(0).integers(0, 255, (4, 40, 40, 3), dtype=np.uint8)


def saved(image: Image.Image, file_format: str, **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, file_format, **options)
    return file.getvalue()


def frames(file_format: str) -> bytes:
    first, *others = map(Image.fromarray, NOISE)
    return saved(first, file_format, save_all=True, append_images=others)


def lint(path: Path) -> tuple[Counter[tuple[str, str]], list[tuple[str, str]]]:
    report = run_lint(LintRequest(ref=DatasetRef(str(path))))
    return report.pictures, [(finding.code, finding.message) for finding in report.findings]


def test_traits_of_pictures_are_counted_by_part(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    parts = {
        "0.jpg": saved(Image.new("RGB", (8, 8)), "JPEG", exif=exif),
        "1.jpg": saved(Image.new("CMYK", (8, 8)), "JPEG"),
        "2.jpg": saved(Image.new("RGB", (8, 8)), "JPEG"),
        "3.png": saved(Image.fromarray(np.full((4, 4), 40_000, np.uint16)), "PNG"),
        "4.png": saved(Image.new("RGBA", (8, 8)), "PNG"),
        "5.png": saved(Image.new("RGBA", (8, 8)), "PNG"),
        "6.gif": frames("GIF"),
    }
    pictures, findings = lint(write_tar(tmp_path / "a.tar", parts.items()))
    assert not findings
    assert pictures == {
        ("jpg", "turned"): 1,
        ("jpg", "cmyk"): 1,
        ("png", "deep"): 1,
        ("png", "alpha"): 2,
        ("gif", "frames"): 1,
    }


@pytest.mark.parametrize("file_format", ["GIF", "TIFF", "PNG"])
@pytest.mark.parametrize("share", [0.95, 0.6])
def test_a_cut_later_frame_is_a_finding(tmp_path: Path, file_format: str, share: float) -> None:
    data = frames(file_format)
    name = {"GIF": "gif", "TIFF": "tif", "PNG": "png"}[file_format]
    _, [(code, message)] = lint(write_tar(tmp_path / "a.tar", [(f"0.{name}", data[: int(len(data) * share)])]))
    assert code == "E302", message


def test_a_gif_that_ends_between_its_frames_is_a_finding(tmp_path: Path) -> None:
    data = frames("GIF")
    start = data.rindex(b"\x21\xf9\x04")  # the last frame's first block
    _, [(code, message)] = lint(write_tar(tmp_path / "a.tar", [("0.gif", data[:start])]))
    assert (code, "before its last block" in message) == ("E302", True)


def test_parts_that_are_other_files_are_named_as_what_they_are(tmp_path: Path) -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"
    page = b"<!DOCTYPE html><title>403 Forbidden</title>"
    parts = [("0.jpg", pointer), ("1.jpg", page), ("2.mp4", page), ("3.txt", pointer), ("4.bin", pointer)]
    _, findings = lint(write_tar(tmp_path / "a.tar", parts))
    assert [message for _, message in findings] == [
        "part 'jpg' is not an image, but a Git LFS pointer: git lfs pull fetches the file",
        "part 'jpg' is not an image, but an HTML page, as web servers answer with an error",
        "part 'mp4' is not mp4, but an HTML page, as web servers answer with an error",
        "part 'txt' is not txt, but a Git LFS pointer: git lfs pull fetches the file",
        "part 'bin' is a Git LFS pointer: git lfs pull fetches the file",
    ]
