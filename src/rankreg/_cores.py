"""How much of the machine may be used."""

import ctypes
import os
import sys


def cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def keep_freed_memory() -> None:
    """Let this process reuse the memory it frees instead of returning it to the system.

    Small networks train a sixth faster: glibc maps every block above 128 kB anew, and the system clears its pages.
    On other systems nothing happens. The process keeps its largest footprint, so only workers should call this.
    """
    trim_threshold, mmap_threshold = -1, -3  # of malloc.h
    if sys.platform == "linux":
        allocator = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
        if allocator is not None:
            allocator(mmap_threshold, 2**30)
            allocator(trim_threshold, 2**31 - 1)
