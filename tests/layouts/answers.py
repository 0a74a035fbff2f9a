"""Compare what a layout became with its right answer, in which some choices may be open.

An answer of a card has, beyond plain keys and parts:

- ``"images/1 | 1"``: either key; ``"jpg txt | jpg json"``: either set of parts, each after its split part;
- ``"jpg json classes.json?"``: a part that may be missing;
- ``"? test/1"``: a sample that may be missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from loader.convert.importing import ImportPlan, PictureOptions, list_rows, run_import, write_trial
from loader.convert.sources import SourceOptions, compared_hypotheses, open_sources
from loader.dataset.opening import folder_at
from loader.dataset.split_parts import samples_of_part
from loader.engine import Account
from loader.inspect import OpenChoices, choice_files, inspect_folder, propose_choices
from tests.layouts.layout import Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A dataset that an import made.

    Attributes:
        samples: Key → names of the parts, as in :class:`Layout`.
        texts: ``"<key>.<part>"`` → contents.
    """

    samples: Mapping[str, str]
    texts: Mapping[str, str]
    sample_type: str
    notes: str
    account: Account


def differences(layout: Layout, outcome: Outcome, *, lacking: int = 0) -> list[str]:
    """Return how an outcome differs from the right answer.

    Args:
        lacking: So many samples may be missing, fail, or miss parts, since one of their files was removed.
    """
    return [*_differences_of_samples(layout, outcome, lacking), *_differences_of_account(layout, outcome, lacking)]


def _differences_of_samples(layout: Layout, outcome: Outcome, lacking: int) -> Iterator[str]:
    # Each sample of the answer has its parts, and there are no others.
    others = dict(outcome.samples)
    lacks: list[str] = []
    for expected, parts in layout.samples.items():
        options = expected.removeprefix("? ").split(" | ")
        key = next((key for key in options if key in others), "")
        actual = others.pop(key, "")
        if not key:
            lacks += [] if expected.startswith("? ") else [f"{expected}: is missing"]
        elif not any(_fits(option, actual) for option in parts.split(" | ")):
            wrong = f"{key}: expected {parts!r}, not {actual!r}"
            is_less = any(_fits(option, actual, may_lack=True) for option in parts.split(" | "))
            lacks += [wrong] if is_less else []
            yield from () if is_less else (wrong,)
        else:
            yield from _differences_of_texts(layout, outcome, expected, key)
    yield from (lacks if len(lacks) > lacking else ())
    yield from (f"{key}: {parts!r} is not a sample" for key, parts in others.items())


def _differences_of_texts(layout: Layout, outcome: Outcome, expected: str, key: str) -> Iterator[str]:
    """Yield what the parts of a sample do not contain."""
    stated = {name: text for name, text in layout.texts.items() if name.startswith(f"{key}.")}
    actual = {name: outcome.texts.get(name) for name in stated}
    yield from (
        f"{name}: expected {text!r}, not {actual[name]!r}" for name, text in stated.items() if text != actual[name]
    )
    held = layout.holds.get(expected, ())
    whole = "\n".join(text for name, text in outcome.texts.items() if name.startswith(f"{key}."))
    yield from (
        f"{key}: {text!r} is in no part" for text in ((held,) if isinstance(held, str) else held) if text not in whole
    )


def _differences_of_account(layout: Layout, outcome: Outcome, lacking: int) -> Iterator[str]:
    outcome.account.check()
    entries = [*outcome.account.left_out, *outcome.account.failed]
    counts = {_named(entry.unit, entry.reason): entry.count for entry in entries}
    failed = sum(entry.count for entry in outcome.account.failed if entry.unit == "rows")
    if layout.left_out is not None and counts != layout.left_out and not lacking:
        yield f"left out: expected {dict(layout.left_out)}, not {counts}"
    if layout.left_out is None and failed > lacking:
        yield f"failed: {counts}"
    if layout.sample_type is not None and not re.fullmatch(layout.sample_type, outcome.sample_type):
        yield f"sample type: expected {layout.sample_type}, not {outcome.sample_type}"
    if not re.search(layout.note, outcome.notes):
        yield f"notes: expected {layout.note!r} in {outcome.notes!r}"


def _fits(option: str, actual: str, *, may_lack: bool = False) -> bool:
    """Return True for the parts of an option, without parts that may be missing; or for any of its parts."""
    split, _, parts = option.rpartition(": ")
    actual_split, _, actual_parts = actual.rpartition(": ")
    names = parts.split()
    required = {name for name in names if not name.endswith("?")}
    possible = {name.removesuffix("?") for name in names}
    present = set(actual_parts.split())
    return split.strip() == actual_split and present <= possible and (may_lack or required <= present)


def _named(unit: str, reason: str) -> str:
    """Return one name for files of a folder and members of an archive."""
    return f"{'files' if unit == 'members' else unit} {reason}"


def any_first(*names: str, parts: str) -> str:
    """Return the answer for tables of which any may have the samples: its row is ``json``, others join by name."""
    joined = [f"{parts} json {' '.join(f'{name}.json' for name in names if name != first)}" for first in names]
    return " | ".join(joined)


def outcome_of(layout: Layout, source: Path, output: Path, *, max_failures: float | None = 100) -> Outcome:
    """Import a source as :func:`import_all` does, and return what it became."""
    sample_type, notes, account = import_all(layout, source, output, max_failures=max_failures)
    samples, texts = contents_of_dataset(output)
    return Outcome(samples=samples, texts=texts, sample_type=sample_type, notes="\n".join(notes), account=account)


def import_all(
    layout: Layout, source: Path, output: Path, *, max_failures: float | None = 100
) -> tuple[str, tuple[str, ...], Account]:
    """Import a source with all proposals, as ``--yes`` does; failures are in the account."""
    sources = open_sources([str(source)], kind=layout.kind, options=SourceOptions(**layout.options))
    with list_rows(sources, shuffled=False) as listed, write_trial(listed, PictureOptions()) as trial:
        first = inspect_folder(trial, other_parts=[*listed.part_counts])
        choices = propose_choices(OpenChoices(first, ask_split=False))
        files = choice_files(first, choices, name="dataset.yaml")
        plan = ImportPlan(sources=sources, output=str(output), max_failures=max_failures, files=files)
        report = run_import(plan, listed=listed)
        assert choices.dataset_yaml is not None
        decided = [compared[0].evidence for _, compared in compared_hypotheses(sources)]
        return choices.dataset_yaml.spec.name, (*listed.notes, *decided), report.account


def contents_of_dataset(path: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Return the parts of each sample, as in :class:`Layout`, and the contents of each part as text."""
    folder = folder_at(str(path))
    splits = {
        number: name
        for name in (folder.documents.split.split_parts if folder.documents.split else ())
        for samples in samples_of_part(folder, name)
        for number in samples
    }
    has_splits = len({*splits.values(), *(["-"] if splits and len(splits) < len(folder.index) else ())}) > 1
    samples: dict[str, str] = {}
    texts: dict[str, str] = {}
    for number in range(len(folder.index)):
        key = folder.index.key(number)
        parts = dict(folder.read_parts(number))
        split = f"{splits.get(number, '-')}: " if has_splits else ""
        samples[key] = split + " ".join(sorted(parts))
        texts |= {f"{key}.{name}": bytes(data).decode("utf-8", "replace") for name, data in parts.items()}
    folder.close()
    return samples, texts
