"""The writer `resample`: human language renamed and recombined, without a model.

from rods.synthesis.writers.resample.writer import ResampleWriter
"""
