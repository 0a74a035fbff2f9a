"""The files that the fuzzer changes, and the steps that it then takes with them."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.steps import Step, commands, decode_media, loading, look_up, parts, restoring, stores

__all__ = ["USES", "Use"]


@dataclass(frozen=True)
class Use:
    """Files, as patterns in a folder, and the steps that read them; maybe others of the folder, too."""

    files: tuple[str, ...]
    steps: tuple[Step, ...]
    reads_all: bool = False

    @property
    def needs(self) -> set[str]:
        """Return the names, in the folder, of what the steps read; empty for everything."""
        return set() if self.reads_all else {pattern.partition("/")[0].partition("*")[0] for pattern in self.files}


def _looks(name: str, options: str = "") -> tuple[Step, ...]:
    """Return steps of the commands that only read."""
    place = f"@{name} {options}"
    levels = ("headers", "bytes", "decode")
    return (
        commands(f"info {place}", f"info {place} --json"),
        *(commands(f"lint {place} --parallel 1 --level {level}") for level in levels),
        commands(f"lint {place} --parallel 1 --json", f"lint {place} --parallel 1 --all"),
        commands(f"preview {place} -n 3", f"preview {place} -n 3 --json --shuffle", f"preview {place} --crude"),
        commands(f"preview {place} 0.tar/01 --json", f"preview {place} --split-parts train --index 3"),
    )


def _prepares(name: str, options: str = "") -> tuple[Step, ...]:
    """Return steps that prepare again: what is there, from nothing, and all shards."""
    line = f"prepare @{name} {options} --yes --num-workers 1"

    def prepare_new(folder: Path) -> str:
        shutil.rmtree(folder / name / ".nv-meta", ignore_errors=True)
        return commands(f"{line} --media-metadata-by-header --json")(folder)

    return (
        commands(line, f"info @{name} {options}"),
        prepare_new,
        commands(f"{line} --force-overwrite --split-ratio 1,1 --split-by samples --compat"),
        commands(f"{line} --fix-duplicates", f"lint @{name} {options} --parallel 1 --fix --level headers"),
    )


def _dataset(name: str, *, raw: bool = True) -> Use:
    files = (f"{name}/*.tar", f"{name}/*.idx", f"{name}/.nv-meta/**/*", f"{name}/.nv-meta/.*")
    loads = (loading(name, raw=raw), loading(name, filter_name="some") if name == "texts" else loading(name, raw=False))
    return Use(files, (*_looks(name), *_prepares(name), *loads, look_up(name), parts(name)))


def _file(*names: str, also: tuple[str, ...] = (), loads: bool = True) -> Use:
    """Return the use of single files, which are read under the first name."""
    steps = [*_looks(names[0]), commands(f"prepare @{names[0]} --num-workers 1", f"info @{names[0]}")]
    if loads:
        steps += [loading(names[0]), loading(names[0], filter_name="some")]
    return Use((*names, *also), tuple(steps))


def _mix(name: str, *also: str) -> Use:
    steps = (*_looks(name), commands(f"prepare {'@' + name} --num-workers 1"), loading(name), stores)
    return Use((name, *also), steps, reads_all=True)


_META = "texts/.nv-meta/*"
USES = (
    _dataset("texts"),
    _dataset("photos", raw=False),
    _dataset("media"),
    _dataset("coded"),
    _dataset("ranges"),
    Use(("interrupted/.nv-meta/**/*", "interrupted/*.tar"), (*_prepares("interrupted"), *_looks("interrupted"))),
    Use(("bare/*.tar",), (*_looks("bare"), *_looks("bare/0.tar"), *_prepares("bare"))),
    Use(("packed/*.gz",), (*_prepares("packed", "--decompress"), *_looks("packed"))),
    Use(
        ("outside/*.tar", "outside-meta/**/*"),
        (
            *_looks("outside", "--meta-folder @outside-meta"),
            *_prepares("outside", "--meta-folder @outside-meta"),
            loading("outside", meta_folder="outside-meta"),
        ),
    ),
    Use(
        ("plain/a.*", "plain/.nv-meta/**/*"),
        (
            *_looks("plain"),
            commands("prepare-media @plain --media-metadata-by-header --num-workers 1"),
            decode_media,
        ),
    ),
    _file("tokens.bin", "tokens.idx", also=("tokens.bin.some.*",)),
    _file("rows.parquet", also=("rows.parquet.some.*",)),
    _file("lines.jsonl", also=("lines.jsonl.*",)),
    Use(
        ("tables/*.parquet", "tables/.nv-meta/*", "tables/.nv-meta/.*"),
        (*_looks("tables"), *_prepares("tables"), loading("tables"), loading("tables", filter_name="some")),
    ),
    Use(
        ("pages/*.jsonl", "pages/*.idx", "pages/.nv-meta/*", "pages/.nv-meta/.*"),
        (*_looks("pages"), *_prepares("pages"), loading("pages")),
    ),
    _mix("mix.yaml", _META),
    _mix("epochs.yaml", _META),
    _mix("nested.yaml", "mix.yaml", "epochs.yaml"),
    _mix("records.yaml", "tokens.idx", "lines.jsonl.idx"),
    _mix("first.yaml", _META),
    _mix("join.yaml", "join.yaml.joins/*", "others/.nv-meta/*"),
    _mix("peer.yaml", "peer.yaml.cache/*", "texts/*.idx"),
    Use(
        ("mix.yaml", "photos/.nv-meta/**/*", "plain/.nv-meta/**/*", "lines.jsonl*", "tokens.*"),
        (stores,),
        reads_all=True,
    ),
    Use(
        ("texts/.nv-meta/filter_*",),
        (loading("texts", filter_name="some"), loading("mix.yaml"), *_looks("mix.yaml")),
        reads_all=True,
    ),
    Use(
        ("state_*.pt", "states.pt", "states.json", "old.pt"),
        (
            restoring("state_0.pt", "state_1.pt"),
            restoring("states.pt", "old.pt"),
            restoring("states.json"),
            commands("checkpoint info @state_0.pt @state_1.pt", "checkpoint info @states.json @states.pt @old.pt"),
            commands("checkpoint redist @state_0.pt @state_1.pt @new --new-world-size 1 --json"),
            commands("checkpoint redist @states.json @new --new-world-size 1", "checkpoint info @states.pt --json"),
        ),
        reads_all=True,
    ),
    Use((_META, "texts/*.tar"), (restoring("states.json"),), reads_all=True),
)
