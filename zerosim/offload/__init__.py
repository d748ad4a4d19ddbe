"""Tiers beside the device: copies to and from the host's memory, and the disk.

    copies      between device and host, in order, beside what is computed
    disk        what is kept on a disk: `DiskStore`

Imports torch, zerosim's L0, collectives, device, trace.labels and trace.holdings.
"""
