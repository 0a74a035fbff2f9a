"""Files found by name beside the samples: auxiliary stores and cache pools."""
