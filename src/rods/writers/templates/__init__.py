"""Messages without a model: how a call is said, and how what was said is read back.

Owns the phrases around calls and the words that fill them. Never chooses a call.

    from rods.writers.templates.phrases import phrases_of
"""
