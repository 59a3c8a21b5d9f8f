"""What the tasks `trees` and `connected` share: a rooted graph as flat arrays of arcs (`Arcs`),
popping on threads, pictures, and the base class `ArcTask`. Import from the modules.
"""
