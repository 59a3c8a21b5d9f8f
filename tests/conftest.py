"""For all tests: Hypothesis draws the same examples in every run, and times nothing."""

from hypothesis import settings

settings.register_profile("nelson", derandomize=True, deadline=None)
settings.load_profile("nelson")
