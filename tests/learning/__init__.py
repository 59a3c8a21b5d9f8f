"""Tests of `nelson.learning`; planted models with exact answers are in `planted`."""
