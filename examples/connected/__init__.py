"""The task `connected`: subgraphs in which all vertices reach a root, drawn by cluster popping.

from examples.connected import RootConnected       from the root of the repository
nelson demo --also examples.connected:RootConnected
"""

from examples.connected.task import RootConnected

__all__ = ["RootConnected"]
