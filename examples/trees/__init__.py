"""The task `trees`: spanning trees directed to a root, drawn by cycle popping, learned exactly.

from examples.trees import SpanningTrees       from the root of the repository
nelson demo --also examples.trees:SpanningTrees
"""

from examples.trees.task import SpanningTrees

__all__ = ["SpanningTrees"]
