"""The sections of a configuration: every knob, its default, and what it means.

Owns the fields alone; `config.py` puts them together, reads them and digests them. Every field is
documented by the string below it. What belongs to one environment, one writer or one way of
training has a section of its own, so that the shared ones stay few. Nothing here imports torch.

    from rods.settings.rollout import RolloutSettings
"""
