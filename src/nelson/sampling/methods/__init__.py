"""One file for each sampler; `sampling.registry` lists them by name."""
