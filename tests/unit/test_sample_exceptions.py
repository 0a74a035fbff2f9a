"""Exceptions of user code that concern one sample."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from loader import DefaultTaskEncoder, FatalSampleError, TextSample, WorkerConfig, get_loader, get_val_dataset
from loader.errors import SampleException
from tests.e2e.text_dataset import write_texts


@pytest.mark.parametrize("kind", [SampleException, FatalSampleError])
def test_the_error_of_a_sample_names_it(kind: Any) -> None:
    sample = TextSample(__key__="s.tar/0", text="a cat")
    for error in (kind.from_sample(sample, "too long"), kind.from_sample({"__key__": "s.tar/0"}, "too long")):
        assert type(error) is kind
        assert str(error) == "sample 's.tar/0' failed: too long"
        assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert str(kind.from_sample(3)) == "a sample failed"
    assert str(kind.from_sample_key("k")) == "sample 'k' failed"


def test_a_sample_exception_skips_the_sample_and_a_fatal_one_stops_the_run(tmp_path: Path) -> None:
    class Refusing(DefaultTaskEncoder[Any, Any, Any, Any]):
        kind: type[SampleException | FatalSampleError] = SampleException

        def encode_sample(self, sample: Any) -> Any:
            if sample.text == "text 15":
                raise self.kind.from_sample(sample)
            return sample

    one = WorkerConfig(rank=0, world_size=1, num_workers=0, lanes=1)
    dataset = write_texts(tmp_path, train=(1,), val=(20,))
    encoder = Refusing()
    made = get_val_dataset(dataset, worker_config=one, batch_size=None, task_encoder=encoder)
    assert [sample.text for sample in get_loader(made)] == [f"text {n}" for n in range(1, 21) if n != 15]
    encoder.kind = FatalSampleError
    with pytest.raises(FatalSampleError, match=r"sample 'val_0\.tar/00015' failed"):
        list(get_loader(made))
