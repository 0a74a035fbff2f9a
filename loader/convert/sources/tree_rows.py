"""The rows of a tree whose layout is known, and the fate of each of its files."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache

import msgspec

from ...engine import Account
from ...errors import plural
from ...format.tar.names import marked
from ...parts.kinds import MEDIA_KINDS, kind_of_name
from ..file_trees.file_names import HIDDEN, group_files, join_names, reason_of_name
from ..layouts.grouping import Role, are_parallel
from ..layouts.hypothesis import TreeLayout
from ..layouts.rows import RowsOfTable
from ..layouts.tree_files import TreeFiles
from ..readers.registry import readers
from ..rows.key_names import key_of_path
from ..rows.row import NO_SPLIT, AnnotationRef, FaultRef, PartRef, Row, StoredRef, ValueRef, unique_part
from ..tables.named_files import extension_of_path, part_name_of_column, split_name
from ..tables.source_options import SourceOptions
from ..tables.split_names import is_of_several_splits, names_of_parts, split_of_folder, splits_of_files
from .archives import TarSource, splits_of_tars
from .hugging_face import HuggingFaceSource
from .joined_rows import JoinedRows
from .source import Listing
from .table_files import TableFiles
from .tree_tables import list_members, open_rows


class TreeRows:
    """The samples of a tree with a known layout, and the fate of each of its files."""

    def __init__(self, files: TreeFiles, survey: TreeLayout, listing: Listing, options: SourceOptions) -> None:
        self._options = options
        self._files, self._tree = files, files.tree
        self._survey = survey
        self._listing = listing
        self._account = listing.account
        self._splits_of_tables = splits_of_files(survey.tables)
        self._read = {*survey.tables}  # tables, and the files that they name
        self._named = frozenset(survey.rows.named.tolist())
        self._joined = JoinedRows(files, survey.rows, options, listing, survey.folders.classes)
        self._of_folder = lru_cache(1)(self._parts_of_folder)  # all samples of a folder ask

    def rows(self) -> Iterator[Row]:
        survey = self._survey
        folders = survey.folders.splits if survey.folders.split_depth is not None else ()
        for split, names in names_of_parts([*survey.tables, *folders]).items():
            self._listing.notes.append(f"{' and '.join(names)} are both the split part {split}")
        # Samples are inside of tables or tars, or rows of tables, or groups of files.
        if survey.kind not in ("files", "members"):
            yield from self._inner_rows()
            return
        if survey.kind == "members":
            yield from self._member_rows()
            return
        self._read |= {*survey.about}.union(*(parts.values() for parts in survey.associated.values()))
        for (folder, extension), reader in survey.readers.items():
            reads, where = readers()[reader], folder.strip("/") or self._tree.path
            unnamed = "; no file names their classes" if reads.about_files and not survey.about else ""
            self._listing.notes.append(
                f"annotations of {reads.title} in {where} are read: objects of .{extension} are in json{unnamed}"
            )
        yield from self._rows_of_tables()
        yield from self._grouped_rows() if survey.grouping.by != "name" else self._named_rows()
        # Rows may name files that are left out by their names alone.
        for name in self._read:
            reason = reason_of_name(name)
            if reason == HIDDEN:
                self._account.take(self._tree.unit)
            elif reason:
                self._account.reclaim(self._tree.unit, reason, size_bytes=self._tree.size(name))

    def _rows_of_tables(self) -> Iterator[Row]:
        survey = self._survey
        lists = {rows.file for rows in survey.rows.lists}
        alone = [RowsOfTable(file=name) for name in survey.tables if name not in lists]
        self._read |= self._joined.collect()
        for table in survey.rows.rows or alone:
            if not table.joins:
                yield from self._table_rows(table)

    def _member_rows(self) -> Iterator[Row]:
        """Yield rows whose files are members of tars, and account for the other files, and for the other members."""
        self._read |= {*self._survey.tars}
        self._leave_the_rest()
        self._files = list_members(self._tree, self._survey.tars, self._listing.scratch)
        self._tree, self._read = self._files.tree, set()
        self._joined = JoinedRows(self._files, self._survey.rows, self._options, self._listing)
        yield from self._rows_of_tables()
        self._tree.leave_others(self._account, self._read, reason="L119")

    def _leave_the_rest(self) -> None:
        for folder, names in self._folders():
            for name in names:
                self._tree.leave(self._account, join_names(folder, name), "L102")

    def _named_rows(self) -> Iterator[Row]:
        for folder, names in self._folders():
            self._account.use(self._tree.unit, len(names))
            for stem, parts in group_files(names):
                files = {part: join_names(folder, name) for part, name in parts.items()}
                yield self._row(join_names(folder, stem), folder, files)

    def _folders(self) -> Iterator[tuple[str, list[str]]]:
        for folder, names in self._tree.folders(self._account):
            kept = []
            for name in names:
                full = join_names(folder, name)
                # Tables, and files that rows name, are used already.
                if full in self._read:
                    self._account.use(self._tree.unit)
                elif full in self._survey.left:
                    self._tree.leave(self._account, full, self._survey.left[full])
                else:
                    kept.append(name)
            if kept:
                yield folder, kept

    def _row(self, path: str, folder: str, parts: Mapping[str, str]) -> Row:
        layout = self._survey.folders
        of_folder, split = self._of_folder(folder)
        file = next(iter(parts.values()))
        parts = {**parts, **self._associated(file, parts)}
        refs = self._refs(parts, parts)
        refs |= self._joined.parts_of(file)
        classes = of_folder or layout.parts_of_class(self._joined.class_of.get(file, ""))
        return Row(
            key=key_of_path(path),
            parts={**classes, **refs},
            origin=self._shown(file),
            split=self._joined.split_of(parts.values()) or split,
        )

    def _parts_of_folder(self, folder: str) -> tuple[Mapping[str, PartRef], str]:
        """Return the parts of the class of a folder, and its split part."""
        layout, names = self._survey.folders, self._survey.names(folder)
        return layout.class_parts(names) if layout.classes else {}, layout.split_of(names)

    def _associated(self, file: str, taken: Collection[str]) -> dict[str, str]:
        """Return further parts of the sample of a recording: names that it does not have, and files."""
        parts = self._survey.associated.get(join_names(*split_name(file)[:2]), {}) if self._survey.associated else {}
        return {unique_part(part, taken): name for part, name in parts.items()}

    def _refs(self, parts: Mapping[str, str], taken: Collection[str]) -> dict[str, PartRef]:
        """Return the references to files; annotations of a picture become ``json``, and fail if they are alone.

        Args:
            taken: Names of all parts of the sample.
        """
        if not self._survey.readers:
            return {part: self._tree.ref(name, part) for part, name in parts.items()}
        has_picture = any(kind_of_name(part) == "image" for part in taken)
        refs: dict[str, PartRef] = {}
        for part, name in parts.items():
            ref, reader = self._tree.ref(name, part), self._survey.reader_of(name)
            if has_picture and reader and isinstance(ref, StoredRef):
                is_free = "json" not in refs and (part == "json" or "json" not in taken)
                refs["json" if is_free else f"{reader}.json"] = AnnotationRef(ref, reader, *self._about(name, reader))
            elif reader and len(taken) == 1 and self._options.group_by is None:
                fault = f"there is no picture for the annotations in {self._shown(name)}"
                refs[part] = FaultRef(fault, hint="--from folder takes such files as they are", code="F102")
            else:
                refs[part] = ref
        return refs

    def _about(self, name: str, reader: str) -> tuple[StoredRef | None, str]:
        about = self._survey.about_of(name) if readers()[reader].about_files else ""
        ref = self._tree.ref(about, "") if about else None
        return ref if isinstance(ref, StoredRef) else None, about

    def _shown(self, name: str) -> str:
        return marked(self._tree.example(name))

    def _grouped_rows(self) -> Iterator[Row]:
        grouping = self._survey.grouping
        samples: dict[str, dict[str, str]] = {}
        for folder, names in self._folders():
            pieces = tuple(piece for piece in folder.split("/") if piece)
            for stem, parts in group_files(names):
                # Files outside of the roles are samples by themselves, if they are media.
                sample = grouping.sample_of(pieces, stem)
                if sample is None and not any(kind_of_name(part) in MEDIA_KINDS for part in parts):
                    for name in parts.values():  # a list of names or classes
                        self._tree.leave(self._account, join_names(folder, name), "L102")
                    continue
                path, begin = sample or (join_names(folder, stem), "")
                taken = samples.setdefault(path, {})
                taken |= {unique_part(begin + part, taken): join_names(folder, name) for part, name in parts.items()}
                self._account.use(self._tree.unit, len(parts))
        # All folders are known: yield the samples.
        for path, parts in sorted(samples.items(), key=lambda item: item[0].split("/")):
            yield self._row(path, posixpath.dirname(next(iter(parts.values()))), parts)
        alone = sum(len(parts) == 1 for parts in samples.values())
        if alone:
            self._listing.notes.append(f"{alone:,} of {plural(len(samples), 'sample has', 'samples have')} no partner")

    def _table_rows(self, rows: RowsOfTable) -> Iterator[Row]:
        survey, table, unit = self._survey, rows.file, posixpath.dirname(rows.file)
        # Names of tables tell the split parts; a row of another table is in none, and a file comes once.
        joined = {each.file for each in survey.rows.rows if each.joins}
        joins = {(each.file, each.inside) for each in survey.rows.rows if each.joins}
        is_named_after = (table, rows.inside) in joins  # what its rows say are parts with the name of the table
        joined -= {each.file for each in survey.rows.rows if not each.joins}
        # Of several tables, the numbers of classes would differ.
        is_only = self._options.is_only_table and len(joined) + 1 == len(survey.tables)
        options = replace(self._options, is_only_table=is_only)
        files, source, _ = open_rows(self._files, rows, options, self._listing.scratch)
        splits = {name: split for name, split in self._splits_of_tables.items() if name == table or name not in joined}
        of_list = split_of_folder(rows.inside)
        has_splits = len({*splits.values()} - {""}) > 1
        of_table = splits[table] or NO_SPLIT if has_splits else ""
        of_one = splits[table] if has_splits and not is_of_several_splits(table) else ""
        is_of_several, stem = len(survey.tables) > 1, table.rpartition(".")[0]
        account = Account()
        for row in source.rows(replace(self._listing, shuffled=True, account=account)):
            if (has_splits or rows.is_again) and files.last in self._read:
                self._account.lose("rows", "L123", join_names(unit, row.origin))
                files.last = ""
                continue
            if not files.last:
                key = key_of_path(f"{stem}/{row.key}") if is_of_several else row.key
                split = row.split or of_list or of_table
                yield msgspec.structs.replace(row, key=key, origin=join_names(unit, row.origin), split=split)
                continue
            parts = {name: p for name, p in row.parts.items() if not (is_named_after and isinstance(p, ValueRef))}
            # Rows without a split get the split part of the files that they name.
            named = survey.folders.split_of(survey.names(posixpath.dirname(files.last)))
            last = files.last.partition(".tar/")[2] if survey.kind == "members" else files.last
            is_coco = rows.kind == "coco" and last
            yield msgspec.structs.replace(
                row,
                key=key_of_path(join_names(*split_name(last)[:2])) if is_coco else row.key,
                parts={**parts, **self._beside(files, parts), **self._joined.parts_of(files.last)},
                origin=join_names(unit, row.origin),
                split=row.split or of_list or of_one or self._joined.split_of([files.last]) or of_table or named,
                thing=survey.thing_of(files.last),
            )
            files.last = ""
        self._leave_rows(account, unit)
        self._read |= files.used

    def _beside(self, files: TableFiles, parts: Mapping[str, PartRef]) -> dict[str, PartRef]:
        """Return further parts of a row: the files that share their names with its file, and that no row names."""
        folder, stem, _ = split_name(files.last)
        taken: dict[str, str] = {}
        grouping = self._survey.grouping
        role, base = grouping.role_of((), stem)
        begins = grouping.roles if role else {Role(): ""}
        for each, begin in begins.items():
            same = self._files.of_stem(f"{each.prefix}{base}{each.suffix}")
            others = (other for other in self._survey.parallel if other in same and are_parallel(folder, other))
            near = [file_number for above in sorted({folder, *others}) for file_number in same.get(above, ())]
            for name in (self._files.names[n] for n in near if n not in self._named):
                above = posixpath.dirname(name)
                if name == files.last:
                    continue
                part, all_parts = begin + extension_of_path(name), {**parts, **taken}
                if part in all_parts and above != folder:
                    part = f"{part_name_of_column(posixpath.basename(above))}.{part}"
                part = unique_part(part, all_parts)
                taken[part] = name
                files.used.add(name)
        taken |= self._associated(files.last, {**parts, **taken})
        return self._refs(taken, {**parts, **taken})

    def _leave_rows(self, account: Account, folder: str) -> None:
        for entry in account.left_out:
            if entry.unit == "rows":
                self._account.lose("rows", entry.reason, join_names(folder, entry.example), count=entry.count)

    def _inner_rows(self) -> Iterator[Row]:
        survey, tree, listing = self._survey, self._tree, self._listing
        names = survey.tables or survey.tars
        # Copy tables and tars out of an archive, to a folder of their own.
        scratch = os.path.join(listing.scratch, str(len(os.listdir(listing.scratch))))  # no other source has it
        paths = [tree.place(name, scratch) for name in names]
        # Tars are sources of their own; tables are read together.
        if survey.kind == "tars":
            for name, path, split in zip(names, paths, splits_of_tars(names), strict=True):
                for row in TarSource(path=path).rows(listing):
                    yield msgspec.structs.replace(row, split=split, origin=row.origin.replace(path, self._shown(name)))
        else:
            folder = os.path.join(scratch, "members") if tree.unit == "members" else tree.path
            inner = HuggingFaceSource(path=folder, columns=self._options)
            account = Account()
            yield from inner.rows(replace(listing, shuffled=True, account=account))
            self._leave_rows(account, "")
        self._read |= {*names}
        self._leave_the_rest()
