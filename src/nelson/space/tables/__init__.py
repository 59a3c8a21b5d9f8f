"""Learning from tables: a law over the legal rows of a space."""
