"""Models, data modules and trainers of Lightning; imported by the tests that run, since Lightning takes seconds."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader

from loader import (
    IdentityMultiEpochDatasetWrapper,
    MegatronDataModule,
    MultiEpochDatasetResampler,
    SavableDataLoader,
    generic_batch,
    random_access,
)
from loader.integrations.num_microbatches_calculator import MegatronDataSampler


class Recorder(pl.LightningModule):
    """Model of one weight that records its training batches, and saves a checkpoint after each step."""

    def __init__(self, checkpoints: Path) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))
        self.checkpoints = checkpoints
        self.seen: list[list[str]] = []

    def training_step(self, batch: Any, _: int) -> Any:
        self.seen.append(list(batch.text))
        return self.weight**2

    def on_train_batch_end(self, *_: Any) -> None:
        self.trainer.save_checkpoint(self.checkpoints / f"{self.trainer.global_step}.ckpt")

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)


class ValidatedRecorder(Recorder):
    """Model that also records its validation batches."""

    def __init__(self, checkpoints: Path) -> None:
        super().__init__(checkpoints)
        self.validated: list[str] = []

    def validation_step(self, batch: Any, _: int) -> None:
        self.validated += batch.text


def fit(
    folder: Path,
    steps: int,
    *,
    model_type: type[Recorder] = Recorder,
    checkpoint: Path | None = None,
    limit: int | None = None,
    **data: Any,
) -> Any:
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    trainer = pl.Trainer(
        accelerator="cpu",
        max_epochs=-1,
        max_steps=steps,
        limit_train_batches=limit,
        num_sanity_val_steps=0,
        enable_checkpointing=False,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    model = model_type(folder)
    trainer.fit(model, **data, ckpt_path=checkpoint)
    return model


class Texts(pl.LightningDataModule):
    """Data module with the loaders of a run; its own state has the position of training."""

    def __init__(self, loader: SavableDataLoader[Any], validation: Any) -> None:
        super().__init__()
        self.loader, self.validation = loader, validation

    def train_dataloader(self) -> Any:
        return self.loader

    def val_dataloader(self) -> Any:
        return self.validation

    def state_dict(self) -> dict[str, Any]:
        return {"run": self.loader.save_state_global(0)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.loader.restore_state_global(state_dict["run"])


class Epochs(MegatronDataModule):
    """Data module of two epochs of a prepared dataset."""

    def __init__(self, path: str) -> None:
        super().__init__()
        samples = IdentityMultiEpochDatasetWrapper(random_access(path))
        self.dataset = MultiEpochDatasetResampler(samples, num_epochs=2)
        self.data_sampler = MegatronDataSampler(global_batch_size=2, micro_batch_size=2)

    def train_dataloader(self) -> Any:
        self.update_init_global_step()
        sampler = self.data_sampler.batches(len(self.dataset))
        return DataLoader(self.dataset, batch_sampler=sampler, collate_fn=generic_batch)


class Predictor(Recorder):
    """Model that records the texts that it predicts for."""

    def predict_step(self, batch: Any, _: int) -> Any:
        return list(batch.text)


def quiet_trainer(**options: Any) -> pl.Trainer:
    return pl.Trainer(
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **options,
    )
