"""The task `connected`: subgraphs in which all vertices reach a root, drawn by cluster popping.

Import `RootConnected` from `nelson.tasks`.
"""
