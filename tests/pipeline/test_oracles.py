# SPDX-License-Identifier: Apache-2.0
"""Emitted numbers against what the libraries themselves say."""

import datetime as dt
import re

import torch
import torch_tensorrt

from support import models
from support import recorded as work
from support.tree import named, trees


def durations(messages):
    """What Torch-TensorRT writes about durations, as (what, seconds)."""
    for message in messages:
        found = re.fullmatch(r"(.*) elapsed time: (\d+):(\d+):(\d+\.?\d*)", message)
        if found:
            hours, minutes, seconds = int(found[2]), int(found[3]), float(found[4])
            yield found[1], dt.timedelta(hours=hours, minutes=minutes, seconds=seconds).total_seconds()


def seconds(span):
    return (span.end_time - span.start_time) / 1e9


def test_durations_cover_those_in_the_librarys_log(recorded):
    conv_net = recorded(work.conv_net)
    spans, theirs = conv_net.spans, dict(durations(conv_net.log))
    assert seconds(named(spans, "torch_tensorrt.construct_network")) >= theirs["TRT INetwork construction"]
    # Their second line spans configuration, build and the reading of the engine, for which we have two spans.
    build = seconds(named(spans, "tensorrt.build_engine"))
    reading = next(span for span in spans if span.name == "tensorrt.deserialize_engine")
    assert build + seconds(reading) <= theirs["Build TRT engine"]
    assert seconds(named(spans, "torch_tensorrt.convert")) >= sum(theirs.values())


def test_bytes_and_layers_are_those_of_the_engine_and_the_network(recorded):
    fallback = recorded(work.fallback)
    children = fallback.module.named_children()
    sizes = {name: len(child.serialized_engine) for name, child in children if "_acc" in name}
    (compilation,) = [tree for tree in trees(fallback.spans) if tree.name == "torch_tensorrt.compile"]
    conversions = compilation.find("torch_tensorrt.convert")
    assert {
        each.attributes["torch_tensorrt.engine.name"]: each.attributes["tensorrt.engine.size"] for each in conversions
    } == sizes
    assert compilation.attributes["torch_tensorrt.engines.size"] == sum(sizes.values())
    assert compilation.attributes["torch_tensorrt.engines.count"] == len(sizes) == 2


def test_converter_time_adds_up_to_no_more_than_the_networks_construction(recorded):
    spans = recorded(work.conv_net).spans
    network = named(spans, "torch_tensorrt.construct_network")
    durations = network.attributes["torch_tensorrt.converters.durations"]
    assert list(durations) == sorted(durations, reverse=True)
    assert 0 < sum(durations) <= seconds(network)
    operators = named(spans, "torch_tensorrt.convert").attributes
    assert sum(network.attributes["torch_tensorrt.converters.counts"]) == operators["torch_tensorrt.engine.operators"]


def test_steps_name_what_has_no_span_of_its_own(instrument, exporter):
    instrument()
    program = torch_tensorrt.dynamo.trace(models.seeded(models.Mlp), arg_inputs=[torch.ones(2, 16)])
    torch_tensorrt.dynamo.compile(
        program, arg_inputs=[torch.ones(2, 16)], min_block_size=1, offload_module_to_cpu=True, optimization_level=2
    )
    compilation = named(exporter.get_finished_spans(), "torch_tensorrt.compile")
    steps = dict(
        zip(
            compilation.attributes["torchspan.steps.names"],
            compilation.attributes["torchspan.steps.durations"],
            strict=True,
        )
    )
    assert {"get_decompositions", "ExportedProgram.module", "deallocate_module"} <= steps.keys()
    assert sum(steps.values()) <= seconds(compilation)
    assert compilation.attributes["torch_tensorrt.settings.optimization_level"] == 2
