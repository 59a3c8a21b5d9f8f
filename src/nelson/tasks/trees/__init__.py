"""Spanning trees directed to a root, drawn by cycle popping."""
