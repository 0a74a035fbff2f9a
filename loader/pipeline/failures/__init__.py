"""Failed and skipped samples: what handlers receive, which message names a sample, and when a run stops."""
