"""The bundled policies' weights, and demonstrations of generated questions for `rods sft`.

`tools/pretrain/` of the repository makes the weights; it is not part of the package.
"""
