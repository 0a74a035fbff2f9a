"""Write the samples of sources as a prepared dataset, in parallel and resumable."""
