"""Inference engines: policies that sample from real weights.

`hf.py` runs a causal language model of transformers in this process; its neighbours are the parts
it is made of. This module imports nothing, so that the core never loads torch by accident.

    from rods.engines.hf import HFPolicy
"""
