"""Data sets of variants, made without training: seeds in, exports out.

from rods.synthesis.dataset.exports import export
"""
