"""Dataset classes, paths and names for code written for megatron-energon; ``docs/explanation/compatibility.md`` is the map."""
