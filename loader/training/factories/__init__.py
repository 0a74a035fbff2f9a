"""Dataset classes with the interface of megatron-energon."""
