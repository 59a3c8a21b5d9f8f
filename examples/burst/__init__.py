"""A cocotb test bench whose random bursts are uniform over the legal ones."""
