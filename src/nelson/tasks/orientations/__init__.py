"""Sink-free orientations: one-way streets without dead ends."""
