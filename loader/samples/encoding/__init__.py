"""Run user code on samples: task encoders and cookers."""
