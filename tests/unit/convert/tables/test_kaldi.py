"""The lists of a data folder of Kaldi are joined to utterances, and what is missing is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from loader.convert.tables.kaldi import read_kaldi


def folder(path: Path, **lists: str) -> str:
    for name, text in lists.items():
        (path / name.replace("wav_scp", "wav.scp")).write_text(text, "utf-8")
    return str(path / "wav.scp")


def test_an_utterance_has_its_text_and_all_that_the_lists_say(tmp_path: Path) -> None:
    path = folder(
        tmp_path,
        wav_scp="u1 wav/a 1.wav\nu2 /data/b.flac\n",
        text="u1 HELLO  THERE\nu2\n",
        utt2spk="u1 s1\nu2 s2\n",
        spk2utt="s1 u1\ns2 u2\n",
        spk2gender="s1 f\n",
        utt2dur="u1 1.5\n",
        reco2dur="u2 2.5\n",
    )
    assert [record.values for record in read_kaldi(path)] == [
        {"id": "u1", "audio": "wav/a 1.wav", "text": "HELLO  THERE", "speaker": "s1", "gender": "f", "dur": "1.5"},
        {"id": "u2", "audio": "/data/b.flac", "text": "", "speaker": "s2", "gender": None, "dur": None},
    ]


def test_segments_are_utterances_of_recordings(tmp_path: Path) -> None:
    path = folder(
        tmp_path,
        wav_scp="call1 a.wav\n",
        segments="u1 call1 0.00 1.25\nu2 call1 1.25 -1\nu3 call2 0 1\n",
        text="u1 A\nu2 B\nu3 C\n",
    )
    records = [record.values for record in read_kaldi(path)]
    assert [(r["id"], r["recording"], r["audio"], r["start"], r["end"], r["text"]) for r in records] == [
        ("u1", "call1", "a.wav", 0, 1.25, "A"),
        ("u2", "call1", "a.wav", 1.25, None, "B"),
        ("u3", "call2", None, 0, 1, "C"),
    ]


def test_a_transcript_without_a_recording_is_kept_for_the_account(tmp_path: Path) -> None:
    path = folder(tmp_path, wav_scp="u1 a.wav\n", text="u1 A\nu2 B\n")
    assert [record.values["audio"] for record in read_kaldi(path)] == ["a.wav", None]


@pytest.mark.parametrize(
    ("command", "audio"),
    [
        ("flac -c -d -s /corpora/libri/84-0001.flac |", "/corpora/libri/84-0001.flac"),
        ("sox a.wav -r 8000 -t wav - |", None),
        ("flac -c -d -s a.flac | sox -t wav - -r 8000 - |", None),
    ],
)
def test_a_command_that_only_decodes_names_its_file_and_others_fail(
    command: str, audio: str | None, tmp_path: Path
) -> None:
    [record] = read_kaldi(folder(tmp_path, wav_scp=f"u1 {command}\n"))
    assert record.values.get("audio") == audio
    assert ("the output of a command, which is not run" in record.fault) == (audio is None)


def test_a_line_that_is_no_text_fails_with_the_name_of_its_list(tmp_path: Path) -> None:
    path = folder(tmp_path, wav_scp="u1 a.wav\n", text="")
    (tmp_path / "text").write_bytes(b"u1 caf\xe9\n")
    assert [record.fault for record in read_kaldi(path)] == ["text: it is not UTF-8 text", ""]
