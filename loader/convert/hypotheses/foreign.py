"""Name the formats that a library of their own reads: their files have many samples each, in a form of its own."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress

import msgspec

from ...errors import EnergonError
from ...format.documents import ImportWay
from ..layouts.survey import Survey

_HEAD_BYTES = 1 << 20
_LEROBOT = "a LeRobot dataset of version {}, whose tables hold the steps of episodes, and whose videos are apart"
_RLDS = "a dataset of TensorFlow Datasets, such as RLDS: records in TFRecord files with features.json"
_MCAP = "a set of MCAP recordings, such as ROS 2 writes: files with the messages of several sensors"
_SHAR = "a Lhotse Shar dataset with several tars for each shard, whose members are fields of one cut"
_SHARD = re.compile(r"(?:.*/)?(\w+)\.\d{6}\.(?:tar|jsonl)(?:\.gz)?")  # of Shar, as recording.000000.tar


class _LeRobotInfo(msgspec.Struct):
    codebase_version: str = ""


def foreign_format(survey: Survey) -> tuple[str, list[ImportWay]] | None:
    """Return that a tree has such a format, and how its samples are read; None for other trees."""
    for title, way in _formats(survey):
        return f"this is {title}; no part of it is imported alone", [way]
    return None


def _formats(survey: Survey) -> Iterator[tuple[str, ImportWay]]:
    files, records = survey.files, survey.roles["records"] if not survey.roles["data"] else []
    for name in _named(files.names, "info.json"):
        with suppress(EnergonError, msgspec.MsgspecError), files.tree.open(name) as file:
            info = msgspec.json.decode(file.read(_HEAD_BYTES), type=_LeRobotInfo)
            if version := info.codebase_version.removeprefix("v").partition(".")[0]:
                yield _LEROBOT.format(version), _way("lerobot (LeRobotDataset)", "an episode or a step")
    # Cuts of Shar with one tar for each shard are rows that name its members.
    tars = {match[1] for name in survey.roles["tar"] if (match := _SHARD.fullmatch(name))}
    if len(tars) > 1 and any(
        (match := _SHARD.fullmatch(name)) and match[1] == "cuts" for name in survey.roles["table"]
    ):
        yield _SHAR, _way("lhotse (CutSet.from_shar)", "a cut")
    if any(name.lower().endswith(".mcap") for name in records):
        yield _MCAP, _way("mcap", "a message, or the messages of a span of time")
    if records and _named(files.names, "features.json"):
        yield _RLDS, _way("tensorflow_datasets (builder_from_directory)", "a record")


def _named(names: Sequence[str], last: str) -> list[str]:
    return [name for name in names if name.endswith(last) and posixpath.basename(name) == last]


def _way(library: str, sample: str) -> ImportWay:
    return ImportWay(f"read it with the library {library}, and write {sample} as a sample with loader.ShardWriter")
