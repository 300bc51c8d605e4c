"""The writer `llm`: a language model plans, fills in, words and judges; one file a stage.

from rods.synthesis.llm.writer import LlmWriter
"""
