"""States: their type, and a restore on another size of the run or with other arguments."""

import json
from itertools import islice

import torch
from facts import Facts
from megatron.energon import DefaultTaskEncoder, WorkerConfig, get_savable_loader, get_train_dataset

DIFFERS = {
    "state_of_a_rank_is_json": ("A state is a `dict`, and a state", "| states | dicts, lists, texts and numbers |"),
    "state_of_a_rank_is_loaded_as_weights": "`torch.load(…, weights_only=True)` and JSON read them",
    "annotation_of_a_state": "They are plain dataclasses, and no state here is of them",
    "order_with_other_workers": "the same for any number of ranks and workers | changes with the total number of",
    "restored_with_other_workers": "| restoring with other workers | any number | `AssertionError` |",
    "restored_on_other_ranks": "any number that divides the number of lanes | `AssertionError`;",
    "restored_with_another_shuffle_buffer": "or other samples than in the uninterrupted run (another",
    "iterated_without_a_loader": "`for batch in dataset`: as a loader without workers. There, this fails.",
}
PROVES = {
    "checkpoint_arguments": "`checkpoint_every_sec`, `checkpoint_every_min_n_samples`, `n_checkpoints`",
    "lanes_of_a_run": "The number of ranks must divide the number of lanes.",
}

facts = Facts()


def train(*, workers=1, rank=0, ranks=1, buffer=50):
    return get_train_dataset(
        facts.folder / "texts",
        batch_size=4,
        shuffle_buffer_size=buffer,
        max_samples_per_sequence=20,
        worker_config=WorkerConfig(rank=rank, world_size=ranks, num_workers=workers),
        task_encoder=DefaultTaskEncoder(),
    )


def texts(loader, count):
    return [batch.text for batch in islice(loader, count)]


def state_after(count, **run):
    loader = get_savable_loader(train(**run))
    texts(loader, count)
    return loader.save_state_rank()


@facts.add
def state_of_a_rank_is_json():
    state = state_after(3)
    return json.loads(json.dumps(state)) == state


@facts.add
def state_of_a_rank_is_loaded_as_weights():
    torch.save(state_after(3), facts.folder / "state.pt")
    return type(torch.load(facts.folder / "state.pt", weights_only=True)).__name__


@facts.add
def annotation_of_a_state():
    return type(state_after(1)).__name__


@facts.add
def order_with_other_workers():
    one, two = (texts(get_savable_loader(train(workers=workers)), 20) for workers in (1, 2))
    return one == two


@facts.add
def restored_with_other_workers():
    loader = get_savable_loader(train(workers=2))
    loader.restore_state_rank(state_after(3, workers=1))
    return len(texts(loader, 2))


@facts.add
def restored_on_other_ranks():
    states = [state_after(3, rank=rank, ranks=2) for rank in range(2)]
    loader = get_savable_loader(train(rank=3, ranks=4))
    loader.restore_state_global(states)
    return len(texts(loader, 2))


@facts.add
def restored_with_another_shuffle_buffer():
    expected = texts(get_savable_loader(train(buffer=50)), 8)[5:]
    loader = get_savable_loader(train(buffer=10))
    try:
        loader.restore_state_rank(state_after(5, buffer=50))
        return "same samples" if texts(loader, 3) == expected else "other samples"
    except Exception as error:  # noqa: BLE001 - the class is the fact
        return type(error).__name__


@facts.add
def iterated_without_a_loader():
    return len(next(iter(train(workers=0))).text)


@facts.add
def checkpoint_arguments():
    loader = get_savable_loader(train(), checkpoint_every_sec=1000, checkpoint_every_min_n_samples=9, n_checkpoints=9)
    batches = iter(loader)
    found = []
    for _ in range(3):
        next(batches)
        state = loader.save_state_rank()
        again = get_savable_loader(train())
        again.restore_state_rank(state)
        found.append(texts(again, 1) == texts(batches, 1))
    return found


@facts.add
def lanes_of_a_run():
    """Ranks and workers of a power of two run in both."""
    return [len(texts(get_savable_loader(train(rank=ranks - 1, ranks=ranks)), 2)) for ranks in (1, 2, 4, 8)]


facts.report()
