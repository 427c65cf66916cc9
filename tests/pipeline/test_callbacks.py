# SPDX-License-Identifier: Apache-2.0
"""The user's callbacks on real compilations: phases of the bridge and ranges of the program, one registry."""

import pytest
import torch
import torch_tensorrt
from opentelemetry import trace

from support import models
from torchspan import callbacks, phase
from torchspan.callbacks import RecordFunctionCallback, add_global_callback, record_function
from torchspan.engine import REGISTRY


@pytest.fixture(autouse=True)
def _nobody_listens():
    assert not callbacks.has_callbacks()
    yield
    callbacks.clear_callbacks()


def compiled():
    model, x = models.seeded(models.Mlp), torch.ones(2, 16)
    return torch_tensorrt.compile(model, ir="dynamo", inputs=[x], min_block_size=1)


def test_a_callback_runs_around_the_phases_it_selects_inside_their_spans(instrument, exporter):
    instrument()
    seen = []

    def start(record):
        seen.append((record.name, trace.get_current_span().name))
        return record.name

    def end(record, name):
        seen.append((f"end of {name}", record.error))

    add_global_callback(RecordFunctionCallback(start, end, scopes={phase.COMPILE, phase.BUILD_ENGINE}))
    compiled()
    assert seen == [
        ("torch_tensorrt.compile", "torch_tensorrt.compile"),
        ("tensorrt.build_engine", "tensorrt.build_engine"),
        ("end of tensorrt.build_engine", None),
        ("end of torch_tensorrt.compile", None),
    ]
    assert {span.name for span in exporter.get_finished_spans()} >= {"torch_tensorrt.compile", "tensorrt.build_engine"}


def test_ranges_of_the_program_and_phases_are_one_tree_for_sampling(instrument):
    instrument()
    seen = []
    settings = {"sampling_prob": 0.5, "sampling_mode": callbacks.SamplingMode.PER_ROOT}
    scopes = {callbacks.RecordScope.USER_SCOPE, phase.COMPILE, phase.PARTITION}
    add_global_callback(RecordFunctionCallback(lambda record: seen.append(record.name), scopes=scopes, **settings))
    found = set()
    callbacks.set_record_function_seed_for_testing(1)
    for _ in range(6):
        seen.clear()
        with record_function("prepare"):
            compiled()
        found.add(tuple(seen))
    assert found == {(), ("prepare", "torch_tensorrt.compile", "torch_tensorrt.partition")}


def test_a_callback_that_fails_changes_neither_the_compilation_nor_its_spans(instrument, exporter, caplog):
    instrument()

    def fails(_record):
        raise RuntimeError("the callback's")

    add_global_callback(RecordFunctionCallback(fails))
    result = compiled()(torch.ones(2, 16))
    torch.testing.assert_close(result, models.seeded(models.Mlp)(torch.ones(2, 16)), rtol=1e-3, atol=1e-3)
    (span,) = [span for span in exporter.get_finished_spans() if span.name == "torch_tensorrt.compile"]
    assert span.status.is_unset
    assert sum("has been disabled" in record.getMessage() for record in caplog.records) == 1


def test_callbacks_outlive_the_bridge_and_the_bridge_leaves_nothing_behind(instrument):
    seen = []
    add_global_callback(RecordFunctionCallback(lambda record: seen.append(record.name)))
    instrumentor = instrument()
    compiled()
    assert "torch_tensorrt.compile" in seen
    instrumentor.uninstrument()
    assert [entry.name for entry in REGISTRY._entries if entry.owner is not None] == []
    seen.clear()
    compiled()
    with record_function("still heard"):
        pass
    assert seen == ["still heard"]
