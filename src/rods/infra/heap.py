"""What the C library's heap keeps of memory that is no longer used.

Owns one setting of glibc. There, freed blocks of up to 32 MiB soon go back to the heap and not to
the system, and the activations of an update, no two of one size, leave a heap with more holes than
content. It knows nothing of who allocates.

    return_blocks()
"""

from __future__ import annotations

import ctypes
from typing import Any

SIZE = 1 << 20
"""Smallest block, in bytes, that goes back to the system at once: tensors of a decode step are
smaller and are made anew all the time."""
_M_MMAP_THRESHOLD = -3  # of glibc's malloc.h


def return_blocks() -> bool:
    """From now on blocks of `SIZE` and more are the system's again when they are freed.

    Returns:
        Whether it was done: False with another C library than glibc.
    """
    library: Any = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version"):
        return False
    return bool(library.mallopt(_M_MMAP_THRESHOLD, SIZE))
