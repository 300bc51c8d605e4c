"""The writer `graph`: new calls by a walk over the API graph, worded by templates.

from rods.writers.graph.writer import GraphWriter
"""
