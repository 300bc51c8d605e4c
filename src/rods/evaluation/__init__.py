"""Evaluation: held-out suites and the intervals of what they measure.

from rods.evaluation.stats import paired_difference
"""
