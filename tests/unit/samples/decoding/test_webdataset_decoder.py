"""The decoder of audio and video in pipelines of webdataset."""

from __future__ import annotations

import io
import wave

import pytest

from loader import ConfigError, SampleDecoder
from loader.av import AVData, AVDecoder
from loader.samples.decoding.decoder import AVWebdatasetDecoder


def sound(samples: int = 800) -> bytes:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(bytes(2 * samples))
    return buffer.getvalue()


def test_audio_is_decoded_by_its_name_and_other_parts_are_left_to_other_decoders() -> None:
    decode = AVWebdatasetDecoder(video_decode_audio=True)
    for key in ("a.wav", "wav", ".wav", "clips/a.WAV"):
        assert decode(key, sound()).get_audio_duration() == pytest.approx(0.1)
    assert isinstance(decode.read_av_data(sound()), AVDecoder)
    assert decode("a.txt", b"a cat") is None


def test_the_form_is_that_of_the_sample_decoder() -> None:
    decoded = AVWebdatasetDecoder(video_decode_audio=True, av_decode="torch")("a.wav", sound())
    assert isinstance(decoded, AVData)
    assert decoded.audio_clips[0].shape == (1, 800)
    assert AVWebdatasetDecoder(False, av_decode=None)("a.wav", sound()) is None
    with pytest.raises(ConfigError, match="there is no av_decode 'torhc'; did you mean 'torch'"):
        AVWebdatasetDecoder(video_decode_audio=True, av_decode="torhc")


def test_it_works_in_a_pipeline_of_webdataset() -> None:
    from webdataset.autodecode import Decoder

    decoder = Decoder([AVWebdatasetDecoder(video_decode_audio=False)])
    sample = decoder({"__key__": "a", "wav": sound(), "txt": b"a cat"})
    assert isinstance(sample["wav"], AVDecoder)
    assert sample["txt"] == "a cat"


def test_the_settings_of_a_sample_decoder_are_plain_data() -> None:
    assert SampleDecoder(image_decode="pil").config() == {
        "image_decode": "pil",
        "av_decode": "AVDecoder",
        "video_decode_audio": False,
        "guess_content": False,
    }
