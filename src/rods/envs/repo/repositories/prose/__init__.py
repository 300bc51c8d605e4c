"""Texts: words, lines of a bounded width, titles and short forms."""
