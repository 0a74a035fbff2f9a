import sys

from energon_toolkit import get_savable_loader, get_train_dataset

loader = get_savable_loader(get_train_dataset(sys.argv[1], batch_size=4))  # or s3://…, hf://…, or a YAML mix
for step, batch in zip(range(3), loader, strict=False):
    print(step, batch)  # batch.image: (4, 3, H, W), batch.caption: 4 texts
state = loader.save_state_rank()  # a few KiB; after restore_state_rank(state), the same batches follow
