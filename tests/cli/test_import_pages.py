"""The pages on importing: their code runs in order, and the commands print what the pages say."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.forked_commands import program
from tests.forked_scripts import ForkedScripts
from tests.layouts import cards_speech  # noqa: F401 - registers its layouts
from tests.layouts.layout import LAYOUTS
from tests.pages import without_numbers
from tests.source_tree import ROOT

PAGES: dict[str, dict[str, str]] = {
    "docs/how-to/from-pictures-to-training.md": {},
    "docs/how-to/import-archives.md": {},
    "docs/how-to/speech-corpora.md": {
        "common_voice_as_it_is_released": "cv-corpus",
        "librispeech": "",
        "ljspeech": "",
        "nemo_manifests": "nemo",
        "kaldi_of_split_parts": "kaldi",
        "vctk": "VCTK-Corpus",
        "aishell": "",
        "timit": "TIMIT",
    },
}
"""Page → layout that its commands import → folder of the layout; empty if the layout has the folder that is named."""
SHOWN_ONLY = ("preview", "browse")  # they need a terminal or a browser


def run_command(line: str, folder: Path) -> str:
    """Return what a command prints: results, then notes and warnings."""
    done = subprocess.run(
        [program(), *shlex.split(line)[1:]],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + "".join(notes_of(done.stderr))


def notes_of(text: str) -> list[str]:
    return [line for line in text.splitlines(keepends=True) if line.startswith(("note: ", "warning: "))]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_runs_from_its_first_line_to_its_last(page: str, tmp_path: Path, scripts: ForkedScripts) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for layout, folder in PAGES[page].items():
        LAYOUTS[layout].build(tmp_path / folder)
    printed = ""
    for number, (language, block) in enumerate(re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)):
        if language == "python":
            script = tmp_path / f"block{number}.py"
            script.write_text(block, encoding="utf-8")
            printed = scripts.run(script, folder=tmp_path)
        elif language == "text":
            assert printed == block
        elif language == "console":
            for command, output in re.findall(r"^\$ (.*)\n((?:[^$].*\n)*)", block, re.MULTILINE):
                words = shlex.split(command)
                if words[0] == "energon" and words[1] not in SHOWN_ONLY and "/data/" not in command:
                    found = run_command(command, tmp_path)
                    results = "".join(line for line in output.splitlines(keepends=True) if line not in notes_of(output))
                    told = results + "".join(notes_of(output))
                    assert not output or without_numbers(found) == without_numbers(told)
