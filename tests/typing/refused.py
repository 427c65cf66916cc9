# SPDX-License-Identifier: Apache-2.0
"""Wrong use of the public API: type checkers report each line with `# refused`, and no other. test_typing.py runs them."""

import torchspan
from torchspan import observers, testing, traces
from torchspan.callbacks import (
    RecordFunctionCallback,
    RecordScope,
    add_global_callback,
    record_function,
    remove_callback,
)
from torchspan.observers import ErrorPolicy, Observer, observable, observe_function
from torchspan.words import phase


@record_function
def load(path: str) -> int:
    return len(path)


@observable
def decode(tokens: list[int]) -> str:
    return str(tokens)


def wrong(file: traces.TraceFile) -> None:
    torchspan.instrument(detail="passe")  # refused
    torchspan.instrument(detial="passes")  # refused
    torchspan.instrument("passes")  # refused
    torchspan.mark_ready("yes")  # refused
    torchspan.batch(3)  # refused
    load(3)  # refused
    decode("text")  # refused
    record_function(3)  # refused
    record_function("load", scope="USER_SCOPE")  # refused
    record_function("load", inputs=3)  # refused
    with record_function(scope=RecordScope.FUNCTION):  # refused
        """A range of a `with` statement needs a name."""
    add_global_callback(print)  # refused
    remove_callback("1")  # refused
    RecordFunctionCallback(3)  # refused
    RecordFunctionCallback(print, scopes=phase.BUILD_ENGINE)  # refused
    RecordFunctionCallback(print, sampling_prob="often")  # refused
    print(observers.tensorrt.build_engin)  # refused
    observers.tensorrt.build_engine.add(print)  # refused
    observers.tensorrt.build_engine.pre.add(3)  # refused
    observers.tensorrt.build_engine.pre.add(print, policy="rethrow")  # refused
    Observer("on_batch", scope="proces")  # refused
    ErrorPolicy(rethrow="yes")  # refused
    observable(3)  # refused
    observe_function(decode)  # refused
    testing.capture(tracer_provider=3)  # refused
    testing.capture(detail="pases")  # refused
    testing.capture(detial="passes")  # refused
    file.one(3)  # refused
    print(phase.BUILD_ENGIN)  # refused
