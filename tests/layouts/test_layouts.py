"""Each layout of data comes out as its right answer says, from a folder, a zip and a tar."""

from __future__ import annotations

import importlib
import pkgutil
import re
from itertools import chain
from pathlib import Path

import pytest

import tests.layouts
from energon_cli.main import main
from loader.errors import EnergonError
from tests.layouts.answers import contents_of_dataset, differences, import_all, outcome_of
from tests.layouts.disturbed import DISTURBANCES, Disturb
from tests.layouts.layout import LAYOUTS, Build, Form, Layout, packed, write

for module in pkgutil.iter_modules(tests.layouts.__path__):
    if not module.name.startswith(("test_", "conftest")):
        importlib.import_module(f"tests.layouts.{module.name}")

CASES = [
    # Each layout in one form, and those of no card in each eighth turn in the others.
    pytest.param(
        layout,
        form,
        id=f"{name}-{form}",
        marks=[pytest.mark.slow] if at > 0 and (layout.is_card or turn % 8 > 0) else [],
    )
    for turn, (name, layout) in enumerate(LAYOUTS.items())
    for at, form in enumerate(layout.forms)
]


@pytest.mark.parametrize(("layout", "form"), CASES)
def test_a_layout_comes_out_as_it_should(layout: Layout, form: Form, fast_disk: Path) -> None:
    folder = fast_disk / "data"
    folder.mkdir()
    inner = layout.build(folder)
    source = packed(folder, form) if inner is None else folder / inner
    if layout.error is not None:
        with pytest.raises(EnergonError, match=layout.error):
            import_all(layout, source, fast_disk / "out")
        return
    wrong = differences(layout, outcome_of(layout, source, fast_disk / "out"))
    assert not wrong, "\n".join(wrong)


DISTURBED = [
    # A quick suite tries some.
    pytest.param(
        layout,
        disturb,
        id=f"{name}-{disturb.__name__}",
        marks=[pytest.mark.slow] if turn % 16 else [],
    )
    for turn, (name, layout) in enumerate(LAYOUTS.items())
    if layout.build.__module__.startswith("tests.layouts.cards_")
    for disturb in DISTURBANCES
]


@pytest.mark.parametrize(("layout", "disturb"), DISTURBED)
def test_a_disturbed_layout_is_never_wrong(layout: Layout, disturb: Disturb, fast_disk: Path) -> None:
    folder = fast_disk / "data"
    folder.mkdir()
    layout.build(folder)
    disturbed = disturb(folder, layout)
    if disturbed is None:
        pytest.skip("the layout has nothing to disturb so")
    try:
        outcome = outcome_of(disturbed.layout, folder, fast_disk / "out", max_failures=None)
    except EnergonError:
        return
    assert layout.error is None, "is not refused any more"
    failed = sum(entry.count for entry in outcome.account.failed if entry.unit == "rows")  # few, and they are named
    wrong = differences(disturbed.layout, outcome, lacking=max(failed, disturbed.lacking))
    assert not wrong, "\n".join(wrong)


def pictures_with_three_captions(folder: Path) -> None:
    write(folder, [f"pictures/{n:02d}.jpg" for n in range(10)])
    rows = "".join(f"pictures/{n:02d}.jpg,caption {k} of {n}\n" for n in range(10) for k in range(3))
    write(folder, {"captions.csv": f"image,caption\n{rows}"})


@pytest.mark.parametrize(
    ("build", "thing"),
    [
        pytest.param(LAYOUTS["nerf_views_of_several_things"].build, r"\w+/", id="views that a document names"),
        pytest.param(LAYOUTS["frames_of_clips"].build, r"\w+/\w+/", id="frames of a clip"),
        pytest.param(pictures_with_three_captions, r"\w+/\d+", id="rows of one picture"),
    ],
)
def test_views_of_one_thing_stay_in_one_split_part(
    build: Build, thing: str, fast_disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (fast_disk / "data").mkdir()
    build(fast_disk / "data")
    assert main(["import", str(fast_disk / "data"), str(fast_disk / "out"), "--yes"]) == 0
    parts: dict[str, set[str]] = {}
    for key, names in contents_of_dataset(fast_disk / "out")[0].items():
        match = re.match(thing, key)
        assert match, key
        parts.setdefault(match[0], set()).add(names.partition(": ")[0])
    assert {name: names for name, names in parts.items() if len(names) > 1} == {}
    assert {*chain(*parts.values())} == {"train", "val", "test"}
    samples, shown = len(contents_of_dataset(fast_disk / "out")[0]), capsys.readouterr().err
    assert f"stay in one split part: {samples} samples of {len(parts)} things" in shown
