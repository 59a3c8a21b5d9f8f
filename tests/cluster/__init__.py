"""Tests of work on many processes: sampling on Ray, training on torch.distributed."""
