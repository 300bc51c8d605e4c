"""Verbs that list what there is: recipes and settings."""
