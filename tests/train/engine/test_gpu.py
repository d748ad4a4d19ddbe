"""The same stages on a GPU, over NCCL, with two ranks on one device if there is but one."""

import os

import pytest
import torch

from tests.train.engine.samples import Case, build, engine_config, oracle

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def test_a_run_over_nccl_is_verified(tmp_path):
    from zerosim.base.config import EngineConfig, RunConfig
    from zerosim.record import load
    from zerosim.train.launch.forkserver import lent
    from zerosim.train.launch.job import Job
    from zerosim.train.launch.launcher import launch
    from zerosim.verify import verify

    engines = tuple((EngineConfig(stage=stage), tmp_path / f"stage-{stage}") for stage in range(4))
    job = Job(RunConfig(model="mlp", ranks=2, steps=3, device="cuda"), engines)
    with lent() as server:
        launch(job, server)
    for _, folder in engines:
        report = verify(load(folder, strict=True))
        assert report.unexplained_trace == 0
        assert next(v for v in report.verdicts if v.id == "sent-a-step").holds
        assert report.holds
        # on one card the bytes cross sockets, and a border waits for the device
        wires = [wire.unexplained for wire in report.wires]
        if torch.cuda.device_count() == 1:
            assert all(one is not None and one % 60 == 0 for one in wires)


def test_one_process_trains_on_a_gpu_as_on_a_cpu():
    from zerosim.train.engine import initialize

    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    case = Case("Stack", engine_config(stage=3, epsilon=1e-3), steps=5)
    engine = initialize(build("Stack", 0).cuda(), case.config)
    expected = oracle(case, 1)
    from tests.train.engine.samples import inputs

    for step in range(case.steps):
        vectors, iteration = inputs("Stack", 0, 1, step, 0)
        loss = engine(vectors.cuda(), iteration)
        engine.backward(loss)
        engine.step()
        assert loss.item() == pytest.approx(expected.losses[step], rel=1e-4)
