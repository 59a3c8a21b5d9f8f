"""Tests of the experiments."""

#: Experiments whose cells are samplers on sizes.
TABLES = ("table1", "table2", "table3", "uniform", "weighted", "rounds", "bias")
