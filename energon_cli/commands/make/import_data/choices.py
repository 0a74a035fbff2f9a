"""The flags of ``energon import``, and the choices that flags, proposals, menus or standard input make."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import click

from loader.convert.importing import ListedRows, PictureOptions
from loader.convert.rows import FileAccess, RefusedFiles
from loader.convert.sources import SourceOptions, found_columns
from loader.errors import escape_controls, plural
from loader.format.documents import SampleTypeSpec
from loader.format.prepare import DatasetYaml, SplitRequest, parse_ratio
from loader.inspect import Choices, ShardFolder, open_choices, propose_choices
from loader.storage import DownloadOptions

from ....console import is_terminal, show_note
from ....engine_options import EngineChoice
from ..prepare.choices import show_trial
from ..prepare.flags import type_of_flags
from ..prompts import AnswerHistory, select, select_or_leave
from ..questions import DEFAULT_RATIO, OTHER_RATIO, RATIOS, PipedQuestions, ask

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportFlags:
    """The parsed command line; ``energon import --help`` describes each flag."""

    sources: tuple[str, ...]
    output: str
    kind: str | None
    columns: SourceOptions  # as the user names them; source_options() adds the rest
    pictures: PictureOptions
    allow_outside: bool | None
    follow_links: bool | None
    download: bool
    keep_urls: bool
    allow_private: bool
    max_size: int
    split_ratio: str | None
    shuffle_seed: int | None
    shard_size: int
    samples_per_shard: int
    max_failures: float | None  # below 1, a share
    sample_type: str | None
    field_map: str | None
    yes: bool
    dry_run: bool
    compat: bool | None
    engine: EngineChoice
    as_json: bool
    strict: bool

    @classmethod
    def of(
        cls, *, key_column: str | None, split_column: str | None, keep_text_only: bool, keep_urls: bool, **options: Any
    ) -> ImportFlags:
        """Gather the options of the command; options of pictures and sources have the names of the library."""

        def taken(kind: type[PictureOptions | SourceOptions]) -> dict[str, Any]:
            return {each.name: options.pop(each.name) for each in fields(kind) if each.name in options}

        conversations = keep_text_only or None  # are kept in any case
        columns = SourceOptions(
            key=key_column, split=split_column, keep_text_only=conversations, tell=show_note, **taken(SourceOptions)
        )
        return cls(columns=columns, pictures=PictureOptions(**taken(PictureOptions)), keep_urls=keep_urls, **options)

    @property
    def asks_by_menus(self) -> bool:
        """True if prompts are wanted, and there is a terminal for menus."""
        asks = not (self.yes or self.dry_run)
        return asks and is_terminal(sys.stdin) and is_terminal(sys.stderr if self.as_json else sys.stdout)

    def ratio(self) -> Mapping[str, float] | None:
        return None if self.split_ratio is None else parse_ratio(self.split_ratio)

    def source_options(self, access: FileAccess) -> SourceOptions:
        """Return the settings of sources, which may name the files that ``access`` allows."""
        return replace(self.columns, access=access, keep_urls=self.keep_urls)

    def check(self) -> None:
        """Refuse flags that contradict each other."""
        self.downloads()
        if (self.engine.share is not None or self.engine.merge) and not self.yes:
            raise click.UsageError("--share and --merge do not prompt, so that all shares agree: pass --yes.")

    def downloads(self) -> DownloadOptions | None:
        """Return what may be downloaded; None for nothing."""
        if self.download and self.keep_urls:
            raise click.UsageError("--download fetches the files at URLs, and --keep-urls none: omit one of them")
        return DownloadOptions(allow_private=self.allow_private, max_bytes=self.max_size) if self.download else None


_MIN_TO_SPLIT = 10  # samples, so that no part is empty


def resolve_choices(
    flags: ImportFlags, listed: ListedRows, folder: ShardFolder, console: Console, history: AnswerHistory
) -> tuple[Mapping[str, float] | None, Choices]:
    """Resolve the choices that flags leave open: the ratio, None for the split of the sources, and the sample type."""
    # Settle what flags or the kind of the sources decide.
    settled = type_of_flags(flags.sample_type, flags.field_map)
    given = open_choices(folder, ask_split=False, **settled)
    ratio = flags.ratio()
    is_split = listed.rows.split_names != ("",)
    # Without prompts, take the proposals.
    if flags.yes or flags.dry_run:
        if ratio is None and not is_split and len(listed.rows) >= _MIN_TO_SPLIT:
            ratio = parse_ratio(DEFAULT_RATIO)
        return ratio, propose_choices(given)
    # Read answers from standard input.
    if not flags.asks_by_menus:
        questions = PipedQuestions(show=console.print)
        if ratio is None and not is_split:
            ratio = questions.split(SplitRequest(ratio=parse_ratio(DEFAULT_RATIO))).ratio
        return ratio, ask(questions, given)
    # Prompt with menus, again if the user goes back.
    from ..menus import MenuQuestions

    def try_field_map(spec: SampleTypeSpec, field_map: Mapping[str, str]) -> bool:
        return show_trial(folder, DatasetYaml(spec=spec, field_map=field_map), console, trust_code=False)

    menus = MenuQuestions(history, folder.sizes, try_field_map=try_field_map)

    def ask_all() -> tuple[Mapping[str, float] | None, Choices]:
        chosen = ratio
        if chosen is None:
            text = history.answer("split", lambda previous: _ask_split(listed, previous, history))
            chosen = parse_ratio(text) if text else None
        return chosen, ask(menus, given)

    return history.run(ask_all)


def settle_urls(flags: ImportFlags, listed: ListedRows, console: Console) -> ImportFlags:
    """Return the flags with a decision on the files that the sources name by URL."""
    hosts = listed.hosts
    if not hosts.urls or flags.download or flags.keep_urls:
        return flags
    columns = [
        repr(column.name) for _, table in found_columns(listed.sources) for column in table if column.role == "url"
    ]
    where = f"column {', '.join(columns)}" if columns else listed.sources[0].path
    named = next(iter(hosts.first))
    urls = f"{where} names {plural(hosts.urls, 'file')} by URL, on {plural(len(hosts.first), 'host')} such as {named}"
    if not flags.asks_by_menus:
        raise click.UsageError(
            f"{urls}; pass --download to fetch them, or --keep-urls to write the URLs as text. Nothing was fetched."
        )
    # Prompt, or leave.
    fetch, keep = "fetch them", "write the URLs as text"
    chosen = select_or_leave(f"{escape_controls(urls)}:", [fetch, keep], "leave, and write nothing")
    if chosen is None:
        console.print("nothing was written")
        raise click.exceptions.Exit(1)
    return replace(flags, download=chosen == fetch, keep_urls=chosen == keep)


def _ask_split(listed: ListedRows, previous: str | None, history: AnswerHistory) -> str:
    """Prompt for the split; return a ratio, or an empty text to keep the split parts of the sources."""
    from ..menus import ask_ratio

    labels: dict[str, str] = {}
    names = [name for name in listed.rows.split_names if name]
    if names:
        labels[f"as the source has it: {', '.join(names)}"] = ""
    labels |= RATIOS
    default = next((label for label, ratio in labels.items() if ratio == previous), None)
    question = f"How should the {plural(len(listed.rows), 'sample')} be split?"
    label = select(question, [*labels, OTHER_RATIO], default=default, can_go_back=history.can_go_back)
    return ask_ratio(previous) if label == OTHER_RATIO else labels[label]


def settle_outside_files(flags: ImportFlags, access: FileAccess) -> ImportFlags:
    """Return the flags with the decisions on files that the listing has refused; unchanged if all is decided."""
    links, paths = access.links, access.paths
    # Links of folders.
    if links.count and flags.follow_links is None:
        verb = "leads out of its folder" if links.count == 1 else "lead out of their folders"
        refused = f"{plural(links.count, 'link')} {verb}, {_places(links)}"
        flags = replace(flags, follow_links=_imports(flags, refused, "follow-links", "leave them out"))
    # Paths in tables, whose folder --root may name instead.
    if paths.count and flags.allow_outside is None:
        verb = "of a table leads out of its folder" if paths.count == 1 else "of tables lead out of their folders"
        refused = f"{plural(paths.count, 'path')} {verb}, {_places(paths)}"
        root = f"--root {escape_controls(paths.parent)} names that folder; "
        has_root = flags.columns.root is None and paths.parent != "/"  # which would allow everything
        refuse = "let their rows fail"
        allows = _imports(flags, refused, "allow-outside", refuse, other_way=root if has_root else "")
        flags = replace(flags, allow_outside=allows)
    return flags


def _places(refused: RefusedFiles) -> str:
    return f"to {escape_controls(refused.parent)}, such as {escape_controls(refused.example)}"


def _imports(flags: ImportFlags, refused: str, option: str, refuse: str, *, other_way: str = "") -> bool:
    allow = f"import these files (--{option})"
    if not flags.asks_by_menus:
        ways = f"{other_way}--{option} imports these files; to {refuse}, pass --no-{option}"
        raise click.UsageError(f"{refused}; nothing was written. {ways}")
    answer = select_or_leave(f"{refused}. Import these files?", [refuse, allow], "stop, and write nothing")
    if answer is None:
        click.echo("nothing was written", err=True)
        raise click.exceptions.Exit(1)
    return answer == allow
