"""Published systems, one folder each: what is one system's alone.

Owns nothing by itself. A folder holds `recipe.toml` (settings, profiles and, in `[provides]`, the
names that it adds), perhaps `reward.py`, `dialect.py`, `filter.py`, and `README.md` (claim,
command, curve, differences). The registries find the folders; nothing imports them, so that a
folder can be deleted. What two recipes use is in `rods.rewards` or `rods.dialects`.
"""
