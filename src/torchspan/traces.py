# SPDX-License-Identifier: Apache-2.0
"""Files of traces as data: spans, and the trees that they make.

    from torchspan import traces

    file = traces.read("trace.jsonl")
    compilation = file.one("torch_tensorrt.compile")
    print(compilation.attributes["torch_tensorrt.compile.outcome"], file.outline())
    for trace in file.traces:
        for node in trace.nodes():
            print(node.span.name, node.span.duration_ns, node.self_ns())

Reading files needs neither the OpenTelemetry SDK nor torch.
"""

from torchspan.reading.traces import *  # noqa: F403 - see `__all__`
from torchspan.reading.traces import __all__  # noqa: F401
