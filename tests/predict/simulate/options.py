"""zerosim's options, each on any number of ranks: what dry runs are held against on 3 and on 8."""

from __future__ import annotations

from typing import Any

from tests.verify.test_family_runs import CPU, INFINITY, NVME, ZEROPP

_STAGES: dict[str, dict[str, Any]] = {
    **{f"stage {stage}": {"stage": stage} for stage in range(4)},
    **{f"stage {stage}, native": {"stage": stage, "collectives": "native"} for stage in range(4)},
}
SCHEDULE: dict[str, dict[str, Any]] = {
    "nothing at once": {"stage": 3, "overlap": False, "prefetch": 0},
    "three units ahead": {"stage": 3, "prefetch": 3, "bucket_elements": 500},
    "micro-steps, buckets, clipping": {"stage": 2, "accumulate": 2, "clip": 1.0}
    | {"bucket_elements": 500},
    "constant buffers": {"stage": 1, "bucket_elements": 500, "constant_buffers": True},
    "memory of its own": {"stage": 2, "contiguous_memory": True},
    "fp16, in chunks": {"stage": 0, "dtype": "fp16", "initial_loss_scale": 1.0}
    | {"chunk_bytes": 1024},
    "one unit": {"stage": 3, "units": ("*",)},
}
_TIERS: dict[str, dict[str, Any]] = {
    "ZeRO-1 offload": {"stage": 1, **CPU},
    "ZeRO-2 offload": {"stage": 2, **CPU, "accumulate": 2, "bucket_elements": 500, "clip": 1.0},
    "ZeRO-3 offload": {"stage": 3, **CPU, "dtype": "fp32"},
    "delayed": {"stage": 1, **CPU, "delayed_update": True},
    "states on disk": {"stage": 2, **NVME, "accumulate": 2, "disk_buffers": 2},
    "parameters on host": {"stage": 3, "offload_param": "cpu", "prefetch": 2},
    "all on disk": {"stage": 3, **INFINITY, "accumulate": 2, "constant_buffers": True}
    | {"bucket_elements": 500},
    "all on disk, at once": {"stage": 3, **INFINITY, "overlap": False},
    "owners": {"stage": 3, **CPU, "offload_param": "cpu", "owner_broadcast": "parameters"},
    "owners of all": {"stage": 3, "owner_broadcast": "states"},
}
_QUANTIZED: dict[str, dict[str, Any]] = {
    "qwZ": {"stage": 3, "quantize_weights": True, "ranks_per_node": 1},
    "qgZ": {"stage": 3, "quantize_gradients": True, "ranks_per_node": 1},
}
_IN_NODES_OF_TWO: dict[str, dict[str, Any]] = {
    "hpZ": {"stage": 3, "secondary_partition": 2, "ranks_per_node": 2, "accumulate": 2},
    "hpZ, parameters on host": {"stage": 3, "secondary_partition": 4, "offload_param": "cpu"}
    | {"frozen": True},
    "ZeRO++": {"stage": 3, **ZEROPP, "ranks_per_node": 2},
    "ZeRO++ in nodes of four": {"stage": 3, **ZEROPP, "secondary_partition": 4}
    | {"ranks_per_node": 4},
    "ZeRO++ in buckets": {"stage": 3, **ZEROPP, "ranks_per_node": 2, "accumulate": 2}
    | {"bucket_elements": 700, "quantization_block": 64},
    "quantized, all on disk": {"stage": 3, **INFINITY, "ranks_per_node": 2}
    | {"quantize_weights": True, "quantize_gradients": True},
    "owners in nodes": {
        "stage": 3,
        **INFINITY,
        "owner_broadcast": "parameters",
        "ranks_per_node": 2,
    },
}
IN_ONE_NODE: dict[str, dict[str, Any]] = {
    "hpZ of all": {"stage": 3, "secondary_partition": 3, "accumulate": 2},
    "ZeRO++ of all": {"stage": 3, **ZEROPP, "secondary_partition": 3, "ranks_per_node": 3},
}
ON_THREE = {**_STAGES, **SCHEDULE, **_TIERS, **_QUANTIZED, **IN_ONE_NODE}
ON_EIGHT = {**_STAGES, **SCHEDULE, **_TIERS, **_QUANTIZED, **_IN_NODES_OF_TWO}
