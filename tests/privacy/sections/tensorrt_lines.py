# SPDX-License-Identifier: Apache-2.0
"""TensorRT by itself: names in its own lines of the log, and lines that a logger of the program's gets."""

import tensorrt_rtx as trt
import torch  # noqa: F401 - Torch-TensorRT is loaded, as in the whole program


def plant(place):
    """Networks that the real builder refuses, each with a name of the program's in what is wrong with it."""
    logger = _logger_class(place("trt.logger.class.identifier"))()
    for name, add in _LAYERS.items():
        with place.part(name):
            _refused(logger, add, place(name))
    with place.part("names"):
        _taken(logger, place)
    with place.part("lines"):
        _lines(place)
    runtime = trt.Runtime(logger)
    runtime.deserialize_cuda_engine(place("trt.engine.bytes").encode())


def _logger_class(name):
    class Own(trt.ILogger):
        def __init__(self):
            trt.ILogger.__init__(self)

        def log(self, severity, msg):
            pass

    Own.__name__ = Own.__qualname__ = name
    return Own


def _network(logger):
    builder = trt.Builder(logger)
    return builder, builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))


def _refused(logger, add, name):
    builder, network = _network(logger)
    x = network.add_input("x", trt.float32, (2, 4))
    y = network.add_input("y", trt.float32, (3, 5))
    layer = add(network, x, y)
    layer.name = name
    output = layer.get_output(0)
    output.name = "out"
    network.mark_output(output)
    builder.build_serialized_network(network, builder.create_builder_config())


_LAYERS = {
    "trt.layer.slice": lambda network, x, y: network.add_slice(x, (0, 0), (9, 9), (1, 1)),
    "trt.layer.matmul": lambda network, x, y: network.add_matrix_multiply(
        x, trt.MatrixOperation.NONE, y, trt.MatrixOperation.NONE
    ),
    "trt.layer.concat": lambda network, x, y: network.add_concatenation([x, y]),
    "trt.layer.elementwise": lambda network, x, y: network.add_elementwise(x, y, trt.ElementWiseOperation.SUM),
    "trt.layer.softmax": lambda network, x, y: _axes(network.add_softmax(x)),
    "trt.layer.gather": lambda network, x, y: network.add_gather(x, y, 0),
    "trt.layer.shuffle": lambda network, x, y: _reshaped(network.add_shuffle(x)),
    "trt.layer.text": lambda network, x, y: network.add_slice(x, (0, 0), (9, 9), (1, 1)),
}


def _axes(layer):
    layer.axes = 1 << 5
    return layer


def _reshaped(layer):
    layer.reshape_dims = (7, 7)
    return layer


def _taken(logger, place):
    """Two layers, and two tensors, of one name; an input without a profile; a network and weights with names."""
    builder, network = _network(logger)
    network.name = place("trt.network.name")
    x = network.add_input(place("trt.tensor.input"), trt.float32, (-1, 4))
    second = network.add_input(place("trt.tensor.text"), trt.float32, (-1, 4))
    layers = [network.add_activation(each, trt.ActivationType.RELU) for each in (x, second)]
    weights = network.add_constant((1,), trt.Weights(trt.float32))
    weights.name = place("trt.weights.name")
    for layer in layers:
        layer.name = place("trt.layer.taken")
        layer.get_output(0).name = place("trt.tensor.taken")
        network.mark_output(layer.get_output(0))
    config = builder.create_builder_config()
    profile = builder.create_optimization_profile()
    profile.set_shape(place("trt.profile.tensor"), (1, 4), (2, 4), (3, 4))
    config.add_optimization_profile(profile)
    builder.build_serialized_network(network, config)


def _lines(place):
    """Lines as other versions write them: when TensorRT logs its first, the program's logger logs these."""
    severity = trt.ILogger.Severity
    lines = [
        (severity.WARNING, f"Skipping tactic of {place('trt.log.warning')}"),
        (severity.ERROR, f"4: {place('trt.log.error')}: could not find any implementation for node"),
        (severity.ERROR, f"Cannot find binding of given name: '{place('trt.log.quoted')}'"),
        (severity.ERROR, f"myelinGraph can't compile {place('trt.log.apostrophe')} and 'others'"),
        (severity.ERROR, f"[optimizer.cpp::compute::12] no tactics {{{place('trt.log.brackets')}}}] for ] it"),
        (severity.WARNING, f"torch.ops.{place('trt.log.operator')}:foo aten::4711.{place('trt.log.operator')}"),
        (severity.ERROR, f"{place('trt.log.last')}"),
    ]

    class Logs(trt.ILogger):
        said = False

        def __init__(self):
            trt.ILogger.__init__(self)

        def log(self, severity, msg):
            if not self.said:
                self.said = True
                for each in lines:
                    self.log(*each)
                raise ValueError(place("trt.logger.raises"))

    Logs.__name__ = Logs.__qualname__ = place("trt.logger.class.text")
    builder, network = _network(Logs())
    builder.build_serialized_network(network, builder.create_builder_config())
