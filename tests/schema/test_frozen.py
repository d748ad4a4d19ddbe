"""The public interface, written down: to change it, change it here as well, deliberately."""

from __future__ import annotations

import importlib.util
import inspect
import pydoc
from dataclasses import fields, is_dataclass
from enum import Enum

import typer

import zerosim
from zerosim.base.config import EngineConfig, RunConfig
from zerosim.cli.app import app
from zerosim.schema import events, manifest, memory, strategies
from zerosim.schema.rows import ROW_TYPES
from zerosim.systems.registry import systems
from zerosim.theory.programs.zero import ENGINE

COMMANDS = {
    # and every option of EngineConfig and RunConfig that has a help
    "run": """
        --stage --ranks --timeout --port --deepspeed-config --explain --fault --check-replicas
        --debuggable --out --overwrite
        --verbose/-v --open --json --help
    """,
    "simulate": """
        COMMAND --stage --system --ranks --machine --out --overwrite --verbose/-v --json --help
    """,
    "trace": """
         COMMAND --out --overwrite --memory/--no-memory --light --fault --check-replicas
         --debuggable --every --keep --help
     """,
    "debug": "WORDS --out --overwrite --browser/--no-browser --attach --host --help",
    "diagnose": "PATHS --patience --json --help",
    "notebook": "NAME --out --overwrite --help",
    "puzzle": "NAME --check --hint --grade --out --json --help",
    "replay": "FOLDER --iteration --at --port --open/--no-open --help",
    "serve": "FOLDERS --host --port --open --compare --perfetto --help",
    "verify": "FOLDER --iteration --received --verbose/-v --json --help",
    "show": "FOLDER --rank --iteration --phase --unit --hops --raw --tour --json --help",
    "graph": "FOLDER --iteration --rank --top --graphml --nodelink --json --help",
    "calibrate": """
        FOLDERS --out --check --cores --gpu --model --batch --sequence --stage --tensor-parallel
        --recompute --json --help
    """,
    "whatif": """
        FOLDER --bandwidth --latency --compute --batch --bus --disk --no-straggler
        --overlap/--serial --slow --jitter --seed --iteration --out --json --help
    """,
    "memory": "FOLDER --rank --iteration --verbose/-v --json --help",
    "compare": "FOLDERS --brief --json --help",
    "profiles": """
        --ranks --model --steps --batch --seed --only --timeout --out --overwrite --markdown --json
        --help
    """,
    "systems": """
        --ranks --model --steps --batch --seed --only --timeout --out --overwrite --markdown --json
        --help
    """,
    "fit": """
        --device-bytes --all --stage --ranks --model --width --dtype --steps --batch --accumulate
        --bucket-elements --prefetch --most-layers --offload-optimizer --offload-param --nvme-path
        --checkpoint-activations --cpu-checkpointing --constant-buffers --contiguous-memory --tiles
        --timeout --markdown --json --help
    """,
    "plan": """
        --model --gpus --gpu --tokens-per-batch --sequence --stage --tensor-parallel
        --pipeline-parallel --batch --recompute --only --context-parallel --expert-parallel --chunks
        --float8 --ideal --tokens --days --price --gpu-mtbf --checkpoint-time --restart-time
        --ds-config --margin --top --write --json --help
    """,
    "table": "NAME --model --json --help",
    "import": "PATHS --out --help",
    "export": """
        FOLDERS --html --page --lesson --site --iteration --overwrite
        --perfetto --chakra --hta --graphml --csv --parquet --png --svg --pdf --gif --webm
        --at --beats --tour
        --figure --theme --present --rank --size --speed --help
    """,
    "doctor": "--json --help",
}
EXIT_CODES = {
    "ZerosimError": 2,
    "InputError": 2,
    "ConfigError": 2,
    "UnplannedError": 2,
    "UnknownValue": 2,
    "TraceError": 2,
    "EnvironmentFault": 2,
    "ClaimFailed": 1,
    "RunError": 3,
    "CollectiveError": 3,
    "OutOfMemory": 3,
    "DiskError": 3,
}

SCHEMA_VERSION = 3
SCHEMAS_READ = (1, 2, 3)
ENUMS = {
    "Kind": ["compute", "collective", "transfer", "copy", "wait", "mark"],
    "Phase": ["setup", "forward", "backward", "update", "outside"],
    "Purpose": [
        "gather parameters",
        "reduce gradients",
        "gradient norm",
        "overflow flag",
        "average loss",
        "average parameters",
        "compute the update",
        "broadcast initial state",
        "broadcast parameters",
        "broadcast buffers",
        "activations",
        "send activations",
        "send gradients of activations",
        "exchange metadata",
        "gather activations",
        "offload activations",
        "fetch activations",
        "offload gradients",
        "return parameters",
        "fetch parameters",
        "store parameters",
        "fetch optimizer states",
        "store optimizer states",
        "synchronize",
        "unlabelled",
    ],
    "Op": [
        "all-reduce",
        "reduce-scatter",
        "all-gather",
        "broadcast",
        "reduce",
        "gather",
        "scatter",
        "all-to-all",
        "send",
        "receive",
        "barrier",
        "unknown",
    ],
    "Held": ["given", "result", "state"],
    "Algorithm": ["ring", "pairwise", "gloo", "nccl", "other"],
    "Role": [
        "parameters",
        "gradients",
        "fp32 master",
        "momentum",
        "variance",
        "gathered parameters",
        "communication buffers",
        "activations",
        "activation checkpoints",
        "secondary parameters",
        "library workspaces",
        "other",
    ],
    "Moment": ["begin", "end", "phase", "recomputed"],
    "MapMoment": ["phase", "peak", "full"],
    "Source": ["executed", "traced", "simulated", "predicted", "imported"],
}
SYSTEMS = {
    *("DDP", "ZeroRedundancyOptimizer", "FSDP2", "FSDP1", "tensor parallel", "pipeline parallel"),
    "DeepSpeed",
}
"""What rows `Strategy` name, beside hand-written programs and what other packages bring."""
RECORDS = {
    "WireDelta": "socket sent_bytes received_bytes",
    "OperatorWork": "operator calls flops touched_bytes",
    "Event": """
        id parent rank kind iteration micro_step phase unit purpose op operator algorithm group
        sequence peers dtype elements payload_bytes parts received_parts sent_bytes received_bytes
        wire issue_ns start_ns end_ns source functions tensors hop shard origin target
        counted_bytes work error device_begin_ns device_end_ns
    """,
    "Template": """
        number kind phase unit purpose op operator algorithm group peers dtype elements
        payload_bytes parts received_parts source functions tensors origin target
    """,
    "Occurrence": "template id parent iteration micro_step sequence issue_ns start_ns end_ns",
    "Close": """
        id sent_bytes received_bytes peers wire start_ns end_ns counted_bytes work error
    """,
    "Transfer": "id parent op peer elements payload_bytes start_ns end_ns hop shard",
    "Header": """
        schema rank num_ranks local_rank host pid device clock_ns wall_ns node segment follows since
    """,
    "Group": "name backend ranks",
    "Socket": "index local remote",
    "Repeated": "socket sent_bytes",
    "WireSample": "iteration micro_step phase time_ns counters repeated is_quiet",
    "InterfaceSample": """
        time_ns name sent_bytes received_bytes sent_packets received_packets addresses
    """,
    "Metric": "iteration name value time_ns",
    "Failure": """
        message iteration phase unit op purpose waiting_for peer_lost time_ns source
    """,
    "Standstill": "since_ns time_ns stack call",
    "DeviceTime": "event begin_ns end_ns",
    "DeviceClock": "uncertainty_ns num_lost",
    "Checksum": "held iteration phase unit role event digest largest time_ns",
    "End": "time_ns num_rows",
    "Holding": "role unit bytes tier",
    "MemoryPlace": "number role unit tier",
    "MemorySample": """
        number event moment iteration micro_step phase time_ns changes unrecorded_bytes
        allocated_bytes peak_bytes
    """,
    "Allocations": "numbers allocated_bytes peak_bytes",
    "AddressBlock": "offset bytes role unit",
    "AddressMap": "moment iteration micro_step phase time_ns limit_bytes blocks",
    "Slot": "name shape offset elements",
    "UnitLayout": "name elements padded_elements trainable slots module",
    "Segment": "unit start stop",
    "BucketLayout": "name segments",
    "Alike": "rank first last",
    "Manifest": """
        schema created program num_ranks backend device versions config run units buckets
        light source machine alike notes is_timed
    """,
    "Parameter": "name shape dtype trainable",
    "Bundle": "name parameters options",
    "Strategy": "system name ranks iteration micro_step bundles options",
}
ROWS = {
    "header": "Header",
    "group": "Group",
    "socket": "Socket",
    "event": "Event",
    "open": "Event",
    "template": "Template",
    "begin": "Occurrence",
    "happened": "Occurrence",
    "close": "Close",
    "transfer": "Transfer",
    "device": "DeviceTime",
    "device_clock": "DeviceClock",
    "wire": "WireSample",
    "interface": "InterfaceSample",
    "place": "MemoryPlace",
    "memory": "MemorySample",
    "allocations": "Allocations",
    "addresses": "AddressMap",
    "strategy": "Strategy",
    "metric": "Metric",
    "standstill": "Standstill",
    "checksum": "Checksum",
    "failure": "Failure",
    "end": "End",
}

NAMES = """
    DeepSpeedEngine EXAMPLE Engine EngineConfig Run RunConfig __version__ add_config_arguments
    init_distributed initialize load run trace
"""


def test_commands_and_options():
    group = typer.main.get_command(app)
    context = typer.Context(group)
    found = {}
    for name in group.list_commands(context):
        params = group.get_command(context, name).get_params(context)
        found[name] = {
            "/".join([*param.opts, *param.secondary_opts])
            if param.param_type_name == "option"
            else param.name.upper()
            for param in params
        }
    expected = {name: set(words.split()) for name, words in COMMANDS.items()}
    declared = {
        f"--{name}/--no-{name}" if one.default is True else f"--{name}"
        for one in (*EngineConfig.options(), *RunConfig.options())
        if one.option.help and (name := one.name.replace("_", "-"))
    }
    expected["run"] |= declared
    expected["simulate"] |= declared - {"--device"}
    assert found == expected
    options = {word for param in group.get_params(context) for word in param.opts}
    completion = {"--install-completion", "--show-completion"}
    assert options == {"--version", "--language", "--help"} | completion


def test_exit_codes():
    errors = importlib.import_module("zerosim.base.errors")
    found = {
        name: kind.exit_code
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, Exception)
    }
    assert found == EXIT_CODES
    assert importlib.import_module("zerosim.cli.app").INTERRUPTED == 130


def test_the_schema_of_events():
    own = [
        kind
        for module in (events, memory, manifest, strategies)
        for kind in vars(module).values()
        if isinstance(kind, type) and kind.__module__ == module.__name__
    ]
    enums = {kind.__name__: [m.value for m in kind] for kind in own if issubclass(kind, Enum)}
    records = {
        kind.__name__: [field.name for field in fields(kind)] for kind in own if is_dataclass(kind)
    }
    assert enums == ENUMS
    assert records == {name: words.split() for name, words in RECORDS.items()}
    assert {name: kind.__name__ for name, kind in ROW_TYPES.items()} == ROWS
    assert events.SCHEMA_VERSION == SCHEMA_VERSION
    assert events.SCHEMAS_READ == SCHEMAS_READ


def test_public_names():
    assert sorted(zerosim.__all__) == sorted(NAMES.split())
    for name in zerosim.__all__:
        assert getattr(zerosim, name) is not None


def test_help_shows_every_public_name_and_what_each_option_is():
    text = pydoc.plain(pydoc.render_doc(zerosim))
    assert set(zerosim.__all__) <= set(dir(zerosim))
    assert {name for name in zerosim.__all__ if name not in text} == {"__version__"}
    for kind in (zerosim.EngineConfig, zerosim.RunConfig):
        assert "Spec(" not in str(inspect.signature(kind))
        assert all(f"{one.name}: {one.meaning}" in kind.__doc__ for one in kind.options())


def test_without_torch_help_shows_what_needs_none(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert {*zerosim.__all__} & set(dir(zerosim)) == {
        "EXAMPLE", "EngineConfig", "Run", "RunConfig", "__version__", "load", "run"
    }  # fmt: skip


def test_the_names_of_systems():
    assert systems().keys() >= SYSTEMS
    assert (ENGINE, strategies.HAND_WRITTEN) == ("ZeRO", "hand-written")
