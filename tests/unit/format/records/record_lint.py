"""The lint of a single file of samples, without the rules of datasets."""

from __future__ import annotations

from pathlib import Path

from loader.lint.record_file import check_record_file
from loader.lint.rule import Finding
from loader.lint.running import RunningLint
from loader.storage import open_parent


def findings_of_file(path: Path | str, *, level: str = "decode") -> list[Finding]:
    lint = RunningLint()
    check_record_file(lint, *open_parent(str(path)), level=level)
    return lint.findings
