"""Structures made of arcs, one out of each vertex: what trees and connected subgraphs share."""
