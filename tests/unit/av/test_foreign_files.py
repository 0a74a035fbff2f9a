"""Bytes that FFmpeg takes for a list of other files or addresses; none of these is opened."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loader.av import AVDecoder
from loader.format.media.av_probe import probe_av
from loader.samples.decoding.decoder import media_decoder, media_form
from tests.unit.av.encoded_media import encode

CONCAT = b"ffconcat version 1.0\nfile secret.mp4\n"
SESSION = b"v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=x\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=video 45678 RTP/AVP 26\r\n"


def decode(form: str) -> Callable[[bytes], Any]:
    decoder = media_decoder("mp4", media_form(form))
    assert decoder is not None
    return decoder


@pytest.mark.parametrize(
    "read",
    [probe_av, lambda data: AVDecoder(data).get_video(), decode("torch"), decode("pyav")],
    ids=["probe", "decoder", "torch", "pyav"],
)
def test_a_list_of_files_opens_none_of_them(
    read: Callable[[bytes], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret.mp4").write_bytes(encode(video="mpeg4"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="not audio or video that can be read"):
        read(CONCAT)


def test_a_playlist_opens_none_of_its_files_even_if_its_own_name_is_that_of_one(tmp_path: Path) -> None:
    (tmp_path / "secret.ts").write_bytes(encode(video="mpeg4", container="mpegts"))
    playlist = tmp_path / "list.m3u8"
    playlist.write_text(f"#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:5.0,\n{tmp_path}/secret.ts\n#EXT-X-ENDLIST\n")
    with playlist.open("rb") as file, pytest.raises(ValueError, match="not audio or video that can be read"):
        AVDecoder(file).get_metadata()


def test_the_description_of_a_session_listens_at_no_port() -> None:
    with pytest.raises(ValueError, match="not audio or video that can be read"):
        probe_av(SESSION)


def test_no_descriptor_stays_open_after_such_bytes() -> None:
    before = os.listdir("/dev/fd")
    with pytest.raises(ValueError, match="not audio or video"):
        probe_av(SESSION)
    assert len(os.listdir("/dev/fd")) == len(before)
