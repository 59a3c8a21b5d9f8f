"""The task `trees`: spanning trees directed to a root, drawn by cycle popping, learned exactly.

Import `SpanningTrees` from `nelson.tasks`.
"""
