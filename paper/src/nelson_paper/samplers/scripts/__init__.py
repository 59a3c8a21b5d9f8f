"""What runs in child processes; see `nelson.sampling.methods.scripts`."""
