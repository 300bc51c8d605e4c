"""The writer `resample`: human language renamed and recombined, without a model.

from rods.writers.resample.writer import ResampleWriter
"""
