"""Tiers off the device: copies to and from host memory, and the disk.

    copies      between device and host, in order, overlapped with computation
    disk        a rank's state on a disk: `DiskFiles`
    dry         the disk of a dry run: `DryDisk`
    commits     the versions of files that make up a complete state
    folder      the owner of a folder, and the abilities of its file system
    files       one file: allocated, written, read
    layout      its format and size
    blocks      checksums
    pool        bounded host memory for reads and writes
    workers     the threads that read and write

After ZeRO-Offload (arXiv 2101.06840) and ZeRO-Infinity (arXiv 2104.07857).
"""

from __future__ import annotations

from zerosim.train.offload.commits import SavedState
from zerosim.train.offload.disk import Disk, DiskFiles
from zerosim.train.offload.dry import DryDisk
from zerosim.train.offload.pool import Buffer

__all__ = ["Buffer", "Disk", "DiskFiles", "DryDisk", "SavedState"]
