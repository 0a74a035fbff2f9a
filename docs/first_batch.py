import sys
from itertools import islice

from loader import get_savable_loader, get_train_dataset

dataset = get_train_dataset(sys.argv[1], batch_size=4)  # or s3://bucket/my_dataset, or a YAML file that blends datasets
print(dataset)  # all arguments, also the default ones
batches = get_savable_loader(dataset)
for step, batch in enumerate(islice(batches, 3)):
    print(step, batch)  # batch.image: (4, 3, H, W), batch.caption: 4 texts
state = batches.save_state_rank()  # plain data, for your checkpoint
batches.restore_state_rank(state)  # here or in another process: the same batches follow
print(3, next(iter(batches)))
