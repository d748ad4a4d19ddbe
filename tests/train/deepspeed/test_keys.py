"""Names and defaults of the table are those that DeepSpeed's own models have."""

from __future__ import annotations

import importlib.util

import pytest

from zerosim.train.deepspeed.config import KEYS
from zerosim.train.deepspeed.config.keys import KeyKind
from zerosim.train.deepspeed.config.table_family import CHECKPOINTS, OPTIMIZER, PARAM, ZERO

pytestmark = [
    pytest.mark.deepspeed,
    pytest.mark.skipif(
        importlib.util.find_spec("deepspeed") is None,
        reason="DeepSpeed is not installed: make deepspeed",
    ),
]
REMOVED = {"mics_shard_size", "mics_hierarchical_params_gather", "zeropp_loco_param"}


def in_section(section):
    return {key.name: key for key in KEYS.values() if key.section == section}


def test_sections_are_deepspeeds_models():
    from deepspeed.runtime.zero import config, offload_config

    models = {
        ZERO: config.DeepSpeedZeroConfig,
        OPTIMIZER: offload_config.DeepSpeedZeroOffloadOptimizerConfig,
        PARAM: offload_config.DeepSpeedZeroOffloadParamConfig,
    }
    for section, model in models.items():
        ours = {name: key for name, key in in_section(section).items() if name not in REMOVED}
        theirs = {field.alias or name: field for name, field in model.model_fields.items()}
        assert ours.keys() == theirs.keys()
        for name, field in theirs.items():
            if ours[name].kind is not KeyKind.SECTION and field.default_factory is None:
                assert ours[name].default == field.default, name


def test_activation_checkpoints_are_deepspeeds():
    from deepspeed.runtime.activation_checkpointing.config import ACT_CHKPT, ACT_CHKPT_DEFAULT

    assert ACT_CHKPT == CHECKPOINTS
    ours = in_section(CHECKPOINTS)
    assert {name: key.default for name, key in ours.items()} == ACT_CHKPT_DEFAULT
