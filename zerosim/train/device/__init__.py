"""The device's memory where there is no device: host memory kept apart, with a limit.

What the engine and autograd allocate is on the device unless it says otherwise. Without a limit the
functions here do nothing.
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
