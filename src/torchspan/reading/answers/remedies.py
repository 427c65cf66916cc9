# SPDX-License-Identifier: Apache-2.0
"""What would change something that was found. Each remedy that torchspan prints is a row here, and is shown only where following it helps.

For each row, `tests/advice/` has programs in which it is shown, and follows it as it is printed; and programs that look alike, in which
it would not help and is not shown. Where no row applies, an answer says what differs and stops.
"""

from __future__ import annotations

from collections.abc import Iterable

from torchspan.reading.answers._attributes import numbers, strings
from torchspan.reading.answers.lines import Code, Paragraph
from torchspan.reading.traces import Attributes
from torchspan.words import semconv
from torchspan.words.semconv.torch import FrameOutcome

REMEDIES = {
    "mark_dynamic": "{} before each call",
    "recompile_limit": "raise {} in the thread that compiles",
    "caches_of_graphs": "unset {}",
    "custom_functions": "torch._functorch.config.autograd_cache_allow_custom_autograd_functions = True",
    "engine_cache": "immutable_weights=False, cache_built_engines=True, reuse_cached_engines=True turn it on",
    "min_block_size": "min_block_size=1 takes it into TensorRT",
    "partial_compilation": "pass require_full_compilation=False to run them in PyTorch",
    "excluded": "pass {} to run it in PyTorch",
    "without_gpu": "try: {}",
    "excluded_in_options": "add {} to options to run it in PyTorch",
}
"""The remedies by name. `{}` stands for code to copy."""

_DEFAULT_LIMITS = {"recompile_limit": 8, "accumulated_recompile_limit": 256}
"""PyTorch's own. Another limit is one that the program has chosen."""


def remedy(name: str, *code: str) -> Paragraph:
    """The remedy of this name.

    Args:
        code: What stands for `{}`.
    """
    pieces = [piece for word in REMEDIES[name].split() for piece in (map(Code, code) if word == "{}" else (word,))]
    return tuple(pieces)


def of_recompilation(frame: Attributes) -> Paragraph:
    """What would have avoided that a frame was compiled again, or was not for a limit; empty where that is not known."""
    if frame.get(semconv.FRAME_OUTCOME) == FrameOutcome.LIMIT:
        setting = str(frame.get(semconv.RECOMPILE_LIMIT) or "")
        is_raised = frame.get(semconv.RECOMPILE_LIMIT_VALUE) != _DEFAULT_LIMITS.get(setting)
        return () if is_raised else remedy("recompile_limit", f"torch._dynamo.config.{setting}")
    arguments, axes = strings(frame, semconv.OPEN_SIZES_ARGUMENTS), numbers(frame, semconv.OPEN_SIZES_AXES)
    if not arguments or len(arguments) != len(axes):
        return ()
    calls = [
        f"torch._dynamo.maybe_mark_dynamic({name}, {axis:.0f})" for name, axis in zip(arguments, axes, strict=True)
    ]
    return remedy("mark_dynamic", *(f"{call};" for call in calls[:-1]), calls[-1])


def of_a_cache_of_graphs(reason: str, disabled_by: Iterable[str]) -> Paragraph:
    """What would let a cache of torch.compile accept the graphs that it did not; empty where that is not known.

    Args:
        reason: PyTorch's own.
        disabled_by: Variables of the environment.
    """
    variables = list(dict.fromkeys(disabled_by))
    if variables:
        return remedy("caches_of_graphs", *variables)
    return remedy("custom_functions") if reason.endswith(" autograd_function_apply") else ()
