# SPDX-License-Identifier: Apache-2.0
"""Metrics of a program that builds an engine with TensorRT-RTX alone; the build is real."""

from plain.test_onnx import onnx_model
from support.child import run


def program():
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    from support.in_child import instrument

    reader = InMemoryMetricReader()
    instrument(meter_provider=MeterProvider([reader], shutdown_on_exit=False))
    import tensorrt_rtx as trt

    logger = trt.Logger(trt.Logger.INTERNAL_ERROR)
    builder = trt.Builder(logger)
    sizes = []
    for _ in range(2):
        network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
        parser = trt.OnnxParser(network, logger)
        parser.parse(onnx_model())
        sizes.append(builder.build_serialized_network(network, builder.create_builder_config()).nbytes)
    read = [
        metric
        for resource in reader.get_metrics_data().resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    ]
    points = {metric.name: list(metric.data.data_points) for metric in read}
    (size,) = points["tensorrt.engine.build.size"]
    return {"built": sizes, "count": size.count, "sum": size.sum, "attributes": dict(size.attributes)}


def test_the_sizes_of_engines_that_the_program_builds_are_recorded(tmp_path):
    result = run(program, onnx_model, folder=tmp_path).value
    assert len(result["built"]) == 2
    assert all(size > 1000 for size in result["built"])
    assert (result["count"], result["sum"]) == (2, sum(result["built"]))
    assert result["attributes"] == {}
