"""`nelson bench` and `nelson demo`, which join the command line of nelson by entry points."""
