"""Random K-SAT with preferred solutions."""
