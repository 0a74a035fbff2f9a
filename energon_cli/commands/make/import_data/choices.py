"""The flags of ``energon import``, and the choices that flags, proposals, menus or standard input make."""

from __future__ import annotations

import sys
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from loader.convert.importing import ImportPlan, ListedRows, PictureOptions
from loader.convert.rows import FileAccess
from loader.convert.sources import SourceOptions, found_columns
from loader.errors import escape_controls, plural
from loader.format.documents import SampleTypeSpec
from loader.inspect import Choices, OpenChoices, ShardFolder, propose_choices
from loader.prepare import SplitRequest
from loader.storage import DownloadOptions

from ....console import is_terminal, show_note
from ....engine_options import EngineChoice
from ....options import layout_of
from ..prepare.choices import show_trial
from ..prepare.flags import type_of_flags
from ..prompts import AnswerHistory, select_or_leave
from ..questions import PipedQuestions, ask

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportFlags:
    """The parsed command line; ``energon import --help`` describes each flag."""

    sources: tuple[str, ...]
    kind: str | None
    columns: SourceOptions
    plan: ImportPlan  # without the sources and what prompts may choose
    allow_outside: bool | None
    follow_links: bool | None
    limits: DownloadOptions  # of files at URLs, if they are fetched
    sample_type: SampleTypeSpec | None
    field_map: str | None
    yes: bool
    dry_run: bool
    engine: EngineChoice
    as_json: bool

    @classmethod
    def of(cls, *, sources: tuple[str, ...], engine: EngineChoice, **options: Any) -> ImportFlags:
        """Gather the options of the command; options of plan, pictures and sources have the names of the library."""

        def taken(kind: type[PictureOptions | SourceOptions | ImportPlan]) -> dict[str, Any]:
            return {each.name: options.pop(each.name) for each in fields(kind) if each.name in options}

        options["keep_text_only"] = options["keep_text_only"] or None  # conversations are kept in any case
        # Rows of a table are grouped by a column, files by what they share.
        group = options["group_by"] or ""
        is_column = group.startswith("column:")
        options |= {"group_by": None, "group_column": group.removeprefix("column:")} if is_column else {}
        key, split, downloads = (options.pop(name) for name in ("key_column", "split_column", "download"))
        columns = SourceOptions(key=key, split=split, tell=show_note, **taken(SourceOptions))
        if downloads and columns.keep_urls:
            raise click.UsageError("--download fetches the files at URLs, and --keep-urls none: omit one of them")
        if (engine.share is not None or engine.merge) and not options["yes"]:
            raise click.UsageError("--share and --merge do not prompt, so that all shares agree: pass --yes.")
        limits = DownloadOptions(allow_private=options.pop("allow_private"), max_bytes=options.pop("max_size"))
        plan = ImportPlan(
            sources=(),
            pictures=PictureOptions(**taken(PictureOptions)),
            layout=layout_of(options),
            downloads=limits if downloads else None,
            **taken(ImportPlan),
        )
        return cls(sources=sources, columns=columns, plan=plan, limits=limits, engine=engine, **options)

    @property
    def output(self) -> str:
        return self.plan.output

    @property
    def asks_by_menus(self) -> bool:
        """True if prompts are wanted, and there is a terminal for menus."""
        asks = not (self.yes or self.dry_run)
        return asks and is_terminal(sys.stdin) and is_terminal(sys.stderr if self.as_json else sys.stdout)


_MIN_TO_SPLIT = 10  # samples, so that no part is empty


def resolve_choices(
    flags: ImportFlags, listed: ListedRows, folder: ShardFolder, console: Console, history: AnswerHistory
) -> Choices:
    """Resolve the choices that flags leave open: the ratio, None for the split of the sources, and the sample type."""
    # Settle what flags or the kind of the sources decide; a ratio always divides samples.
    ratio = flags.plan.layout.split_ratio
    parts = [name for name in listed.rows.split_names if name]
    given = OpenChoices(
        folder,
        split=None if ratio is None else SplitRequest(ratio=ratio),
        ask_split=listed.rows.split_names == ("",),
        by_samples=False,
        **type_of_flags(flags.sample_type, flags.field_map),
    )
    # Without prompts, take the proposals; otherwise read answers from standard input.
    if flags.yes or flags.dry_run:
        return propose_choices(replace(given, ask_split=given.ask_split and len(listed.rows) >= _MIN_TO_SPLIT))
    if not flags.asks_by_menus:
        return ask(PipedQuestions(show=console.print), given)
    # Prompt with menus, again if the user goes back.
    from ..menus import MenuQuestions

    menus = MenuQuestions(
        history,
        folder.sizes,
        what=plural(len(listed.rows), "sample"),
        ways={f"as the source has it: {', '.join(parts)}": SplitRequest()} if parts else {},
        try_field_map=partial(show_trial, folder, console),
    )
    return history.run(lambda: ask(menus, replace(given, ask_split=True)))


def settle_urls(flags: ImportFlags, listed: ListedRows) -> ImportFlags:
    """Return the flags with a decision on the files that the sources name by URL."""
    hosts = listed.hosts
    if not hosts.urls or flags.plan.downloads or flags.columns.keep_urls:
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
    if chosen == fetch:
        return replace(flags, plan=replace(flags.plan, downloads=flags.limits))
    return replace(flags, columns=replace(flags.columns, keep_urls=True))


def settle_outside_files(flags: ImportFlags, access: FileAccess) -> ImportFlags:
    """Return the flags with the decisions on files that the listing has refused; unchanged if all is decided."""
    links = ("link leads out of its folder", "links lead out of their folders")
    paths = ("path of a table leads out of its folder", "paths of tables lead out of their folders")
    for name, refused, what, refuse in (
        ("follow_links", access.links, links, "leave them out"),
        ("allow_outside", access.paths, paths, "let their rows fail"),
    ):
        if not refused.count or getattr(flags, name) is not None:
            continue
        # Scripts learn the options; --root may name the folder of paths, unless that would allow everything.
        option, parent = name.replace("_", "-"), escape_controls(refused.parent)
        question = f"{plural(refused.count, *what)}, to {parent}, such as {escape_controls(refused.example)}"
        if not flags.asks_by_menus:
            has_root = name == "allow_outside" and flags.columns.root is None and refused.parent != "/"
            ways = f"--root {parent} names that folder; " if has_root else ""
            ways += f"--{option} imports these files; to {refuse}, pass --no-{option}"
            raise click.UsageError(f"{question}; nothing was written. {ways}")
        # Prompt, or leave.
        allow = f"import these files (--{option})"
        answer = select_or_leave(f"{question}. Import these files?", [refuse, allow], "stop, and write nothing")
        allowed: dict[str, Any] = {name: answer == allow}
        flags = replace(flags, **allowed)
    return flags
