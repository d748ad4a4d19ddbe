"""DeepSpeed's configuration: the supported part, and the treatment of the rest.

    keys          a row of the table, and the check of a value
    table_top, table_zero, table_family   the table: honoured, ignored or refused, with a sentence
    source        a document from a dictionary, a path, JSON, base64
    check         compares every key of a document with the table
    batch         batch sizes
    schedule      learning rate schedules
    family        offload, ZeRO++, activation checkpoints
    settings      the result: the engine's configuration and further settings
    pages         the table as docs/deepspeed-config.md

The command line reads it without torch.
"""

from zerosim.train.deepspeed.config.batch import BatchSizes
from zerosim.train.deepspeed.config.check import KEYS, CheckedKey
from zerosim.train.deepspeed.config.keys import Key, Treatment
from zerosim.train.deepspeed.config.schedule import Schedule
from zerosim.train.deepspeed.config.settings import Settings, read_settings
from zerosim.train.deepspeed.config.source import read_document

__all__ = [
    "KEYS",
    "BatchSizes",
    "CheckedKey",
    "Key",
    "Schedule",
    "Settings",
    "Treatment",
    "read_document",
    "read_settings",
]
