"""Pictures of results: samples, fits, reports and verdicts. Plain arrays in, a figure out."""
