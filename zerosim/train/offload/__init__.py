"""Tiers beside the device: copies to and from the host's memory, and the disk.

    copies      between device and host, in order, beside what is computed
    disk        what a rank keeps on a disk: `DiskFiles`
    dry         the disk of a dry run: `DryDisk`
    commits     which versions of its files make up a state that is complete
    folder      whose a folder is, and what its file system can do
    files       one file: set aside, written, read
    layout      what stands in it, and how large it is
    blocks      checksums
    pool        bounded host memory that waits for the disk
    workers     the threads that read and write

After ZeRO-Offload (arXiv 2101.06840) and ZeRO-Infinity (arXiv 2104.07857).
"""

from __future__ import annotations

from zerosim.train.offload.commits import SavedState
from zerosim.train.offload.disk import Disk, DiskFiles
from zerosim.train.offload.dry import DryDisk
from zerosim.train.offload.pool import Buffer

__all__ = ["Buffer", "Disk", "DiskFiles", "DryDisk", "SavedState"]
