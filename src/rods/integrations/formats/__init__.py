"""Task rows and logged rewards in the formats of other trainers.

from rods.integrations.formats.exports import export
"""
