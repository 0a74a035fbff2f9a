"""Real Lightning trainers on real data: the batches before a run is stopped, and after it continues."""

from __future__ import annotations

import warnings
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from energon_cli.main import main
from loader import (
    SavableDataLoader,
    WorkerConfig,
    get_loader,
    get_savable_loader,
    get_train_dataset,
    get_val_dataset,
)
from tests.e2e.text_dataset import write_texts

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*LeafSpec.* is deprecated:FutureWarning"),  # Lightning with the installed torch
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
]

TRAIN = 157
VAL = [f"text {number}" for number in range(TRAIN, TRAIN + 61)]
EPOCH = 5


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_texts(tmp_path_factory.mktemp("lightning") / "texts"))


def loader_of(texts: str, *, workers: int = 0, rank: int = 0, ranks: int = 1, **options: Any) -> SavableDataLoader[Any]:
    dataset = get_train_dataset(
        texts,
        batch_size=4,
        shuffle_buffer_size=20,
        max_samples_per_sequence=5,
        worker_config=WorkerConfig(rank=rank, world_size=ranks, num_workers=workers),
        **options,
    )
    return get_savable_loader(dataset)


def data_of(lightning: Any, texts: str) -> Any:
    loader = loader_of(texts, virtual_epoch_length=EPOCH)
    validation = get_val_dataset(texts, batch_size=8, worker_config=loader.worker_config)
    return lightning.Texts(loader, get_loader(validation))


@pytest.fixture(scope="module")
def expected(texts: str) -> list[list[str]]:
    """The first micro-batches of the run."""
    return [batch.text for batch in islice(loader_of(texts), 40)]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.sampled(2)
def test_lightning_saves_and_restores_a_loader_by_itself(
    lightning: Any, workers: int, texts: str, expected: list[list[str]], tmp_path: Path
) -> None:
    def loader() -> SavableDataLoader[Any]:
        return loader_of(texts, virtual_epoch_length=EPOCH, workers=workers)

    first = loader()
    assert lightning.fit(tmp_path, 8, train_dataloaders=first).seen == expected[:8]
    first.close()
    for stopped in (2,) if workers else (1, EPOCH - 1, EPOCH, EPOCH + 1, 8):
        second = loader()
        resumed = lightning.fit(
            tmp_path / "again", 13, train_dataloaders=second, checkpoint=tmp_path / f"{stopped}.ckpt"
        )
        assert resumed.seen == expected[stopped:13], stopped
        second.close()


def test_a_pass_that_ends_is_gone_through_once(lightning: Any, texts: str, tmp_path: Path) -> None:
    once = [batch.text for batch in loader_of(texts, repeat=False)]
    assert lightning.fit(tmp_path, 30, train_dataloaders=loader_of(texts, repeat=False)).seen == once[:30]
    rest = lightning.fit(
        tmp_path / "again", 40, train_dataloaders=loader_of(texts, repeat=False), checkpoint=tmp_path / "30.ckpt"
    )
    assert rest.seen == once[30:]
    assert len({text for batch in once for text in batch}) == TRAIN


@pytest.mark.parametrize("limit", [None, EPOCH])
@pytest.mark.sampled(2)
def test_an_endless_loader_is_saved_and_restored_at_any_step(
    lightning: Any, limit: int | None, texts: str, expected: list[list[str]], tmp_path: Path
) -> None:
    assert (
        lightning.fit(tmp_path, EPOCH + 2, limit=limit, train_dataloaders=loader_of(texts)).seen
        == expected[: EPOCH + 2]
    )
    for stopped in (1, EPOCH - 1, EPOCH, EPOCH + 1):
        checkpoint = tmp_path / f"{stopped}.ckpt"
        again = lightning.fit(
            tmp_path / "again", 9, limit=limit, train_dataloaders=loader_of(texts), checkpoint=checkpoint
        )
        assert again.seen == expected[stopped:9], stopped


def test_an_endless_loader_is_validated_after_each_epoch(lightning: Any, texts: str, tmp_path: Path) -> None:
    train = loader_of(texts)
    steps = -(-TRAIN // 4)
    assert len(train) == steps
    validation = get_loader(get_val_dataset(texts, batch_size=8, worker_config=train.worker_config))
    model = lightning.fit(
        tmp_path, 2 * steps, model_type=lightning.ValidatedRecorder, train_dataloaders=train, val_dataloaders=validation
    )
    assert model.seen == [batch.text for batch in islice(loader_of(texts), 2 * steps)]
    assert model.validated == 2 * VAL


def redistribute(checkpoint: Path, folder: Path, ranks: int) -> Path:
    command = ["checkpoint", "redist", str(checkpoint), str(folder), "--new-world-size", str(ranks)]
    assert main(command) == 0
    assert [path.name for path in folder.iterdir()] == [checkpoint.name]
    return folder / checkpoint.name


def without_loader(checkpoint: Path) -> Any:
    content = torch.load(checkpoint, weights_only=True)
    (loader,) = content["loops"]["fit_loop"]["state_dict"].pop("combined_loader")
    return content, loader


def test_a_checkpoint_is_converted_to_other_ranks_and_keeps_the_trainer(
    lightning: Any, texts: str, expected: list[list[str]], tmp_path: Path
) -> None:
    lightning.fit(tmp_path / "1", 3, train_dataloaders=loader_of(texts))
    two = redistribute(tmp_path / "1" / "3.ckpt", tmp_path / "2", 2)
    one = redistribute(two, tmp_path / "again", 1)
    trainer_state, _ = without_loader(tmp_path / "1" / "3.ckpt")
    for converted in (two, one):
        assert without_loader(converted)[0] == trainer_state
    seen = []
    for rank in range(2):
        loader = loader_of(texts, rank=rank, ranks=2)
        loader.load_state_dict(without_loader(two)[1])
        seen.append([batch.text for batch in islice(loader, 5)])
    assert [batch for step in zip(*seen, strict=True) for batch in step] == expected[3:13]
    again = lightning.fit(tmp_path / "c", 9, train_dataloaders=loader_of(texts), checkpoint=one)
    assert again.seen == expected[3:9]


def test_the_state_of_a_data_module_is_converted_with_that_of_the_loader(
    lightning: Any, texts: str, expected: list[list[str]], tmp_path: Path
) -> None:
    lightning.fit(tmp_path / "1", 3, model_type=lightning.ValidatedRecorder, datamodule=data_of(lightning, texts))
    two = redistribute(tmp_path / "1" / "3.ckpt", tmp_path / "2", 2)
    content = torch.load(two, weights_only=True)
    assert [state["rank"] for state in content["Texts"]["run"]] == [0, 1]
    one = redistribute(two, tmp_path / "again", 1)
    again = lightning.fit(
        tmp_path / "b", 6, model_type=lightning.ValidatedRecorder, datamodule=data_of(lightning, texts), checkpoint=one
    )
    assert again.seen == expected[3:6]


def test_a_checkpoint_is_replaced_only_with_the_flag_and_converted_alone(
    lightning: Any, texts: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lightning.fit(tmp_path, 2, train_dataloaders=loader_of(texts))
    path = tmp_path / "1.ckpt"
    for arguments, message in (
        ([str(path), str(tmp_path)], "exist already"),
        ([str(tmp_path), str(tmp_path / "new")], "expected one checkpoint of Lightning"),
    ):
        assert main(["checkpoint", "redist", *arguments, "--new-world-size", "2"]) == 1
        assert message in capsys.readouterr().err
    assert main(["checkpoint", "redist", str(path), str(tmp_path), "--new-world-size", "2", "--force-overwrite"]) == 0
    assert [state["rank"] for state in without_loader(path)[1]["states of all ranks"]] == [0, 1]


def test_a_data_module_carries_the_exact_position(
    lightning: Any, texts: str, expected: list[list[str]], tmp_path: Path
) -> None:
    first = lightning.fit(tmp_path, 8, model_type=lightning.ValidatedRecorder, datamodule=data_of(lightning, texts))
    assert first.seen == expected[:8]
    assert first.validated == VAL, "once, after the first virtual epoch"
    checkpoint = tmp_path / "3.ckpt"
    second = lightning.fit(
        tmp_path / "b",
        11,
        model_type=lightning.ValidatedRecorder,
        datamodule=data_of(lightning, texts),
        checkpoint=checkpoint,
    )
    assert second.seen == expected[3:11]
    assert second.validated == 2 * VAL


@pytest.mark.filterwarnings("ignore:.*your dataloader is not resumable")  # Lightning cannot know that it is
def test_each_sample_comes_once_in_each_epoch_of_a_run_that_was_stopped_twice(
    lightning: Any, texts: str, tmp_path: Path
) -> None:
    seen: list[list[str]] = []
    checkpoint = None
    for number, steps in enumerate((50, 100, TRAIN)):
        folder = tmp_path / str(number)
        seen += lightning.fit(folder, steps, datamodule=lightning.Epochs(texts), checkpoint=checkpoint).seen
        checkpoint = folder / f"{steps}.ckpt"
    texts_seen = [text for batch in seen for text in batch]
    epochs = texts_seen[:TRAIN], texts_seen[TRAIN:]
    for epoch in epochs:
        assert sorted(epoch) == sorted(f"text {number}" for number in range(TRAIN))
    assert epochs[0] != epochs[1]


# ----------------------------------------------------------------------------------------- what Lightning rebuilds


def test_prediction_rebuilds_the_loader_and_reads_the_same_batches(lightning: Any, texts: str, tmp_path: Path) -> None:
    config = WorkerConfig(rank=0, world_size=1, num_workers=0)
    loader = get_loader(get_val_dataset(texts, batch_size=4, worker_config=config))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Couldn't infer the batch indices")
        predicted: Any = lightning.quiet_trainer().predict(lightning.Predictor(tmp_path), loader)
    assert [text for batch in predicted for text in batch] == VAL


def test_a_restored_loader_predicts_from_its_position(
    lightning: Any, texts: str, tmp_path: Path, expected: list[list[str]]
) -> None:
    first = loader_of(texts)
    list(islice(first, 3))
    loader = loader_of(texts).with_restored_state_rank(first.save_state_rank())
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Couldn't infer the batch indices")
        predicted = lightning.quiet_trainer(limit_predict_batches=4).predict(lightning.Predictor(tmp_path), loader)
    assert predicted == expected[3:7]


@pytest.mark.filterwarnings("ignore:You requested to overfit")
def test_overfitting_on_some_batches_keeps_the_order(
    lightning: Any, texts: str, tmp_path: Path, expected: list[list[str]]
) -> None:
    model = lightning.Recorder(tmp_path)
    trainer = lightning.quiet_trainer(overfit_batches=2, max_steps=4, num_sanity_val_steps=0)
    trainer.fit(model, loader_of(texts, virtual_epoch_length=2))
    assert model.seen == expected[:4]


def test_fabric_accepts_the_loader_and_keeps_its_batches(lightning: Any, texts: str, expected: list[list[str]]) -> None:
    from lightning.fabric import Fabric

    fabric = Fabric(accelerator="cpu", devices=1)
    loader: Any = fabric.setup_dataloaders(loader_of(texts, virtual_epoch_length=5))
    assert [list(batch.text) for _ in range(2) for batch in loader] == expected[:10]
    assert len(loader) == 5
