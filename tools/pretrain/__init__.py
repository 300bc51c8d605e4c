"""Makes the bundled policies; not part of the installed package (`tools/pretrain/__main__.py`)."""
