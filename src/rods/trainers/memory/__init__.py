"""An estimate of what a run holds in memory and on disk, made before it starts."""
