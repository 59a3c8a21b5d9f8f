"""The task `orientations`: a direction for each edge of a graph such that no vertex is a sink.

Import `Orientations` from `nelson_paper.tasks`.
"""
