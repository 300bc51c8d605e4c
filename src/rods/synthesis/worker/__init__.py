"""Variants made beside training: a durable queue, a process, and its client in the driver.

from rods.synthesis.worker.client import SynthesisWorker
"""
