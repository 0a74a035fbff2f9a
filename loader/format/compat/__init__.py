"""Read and write the index files of megatron-energon."""
