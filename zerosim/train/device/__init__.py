"""A simulated device's memory on a host without a device: separate accounting, with a limit.

Allocations of the engine and autograd are on the device unless marked otherwise. Without a limit,
these functions have no effect.
"""

from zerosim.train.device.cuda import device_memory
from zerosim.train.device.limited_memory import DeviceMemory, on_device, on_host, reserved, resized
from zerosim.train.device.space import ALIGNMENT_BYTES, AddressSpace, rounded

__all__ = [
    "ALIGNMENT_BYTES",
    "AddressSpace",
    "DeviceMemory",
    "device_memory",
    "on_device",
    "on_host",
    "reserved",
    "resized",
    "rounded",
]
