# SPDX-License-Identifier: Apache-2.0
"""The answer about a failure: what failed, where in the program it comes from, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from torchspan.reading.answers import _frame_answer, _labels, remedies
from torchspan.reading.answers._attributes import number, numbers, operator, strings
from torchspan.reading.answers._kinds_of_answer import Failure
from torchspan.reading.answers._wording import listed, words
from torchspan.reading.answers.lines import Code, Paragraph
from torchspan.reading.answers.units import plural, source_line, times
from torchspan.reading.traces import Attributes, Node
from torchspan.words import phase, semconv

# --- what validators refused ----------------------------------------------------------------------------------------
_MOST = 3
"""Operators whose refusal is shown."""

_LIBRARY = "torch_tensorrt.dynamo.conversion.aten_ops_converters."


def refusals(of: Iterable[Attributes]) -> Iterator[tuple[str, ...]]:
    """A paragraph for each of the first operators: its validators, and the arguments that they were asked about."""
    refused: dict[str, tuple[str, str]] = {}
    for attributes in of:
        names, validators, arguments = (
            strings(attributes, key)
            for key in (semconv.REFUSED_OPERATORS, semconv.REFUSED_VALIDATORS, semconv.REFUSED_ARGUMENTS)
        )
        if len(names) == len(validators) == len(arguments):
            for name, asked, given_argument in zip(names, validators, arguments, strict=True):
                refused.setdefault(name, (asked, given_argument))
    for name, (asked, given_argument) in list(refused.items())[:_MOST]:
        yield words(f"{operator(name)}: {asked.replace(_LIBRARY, '')} for {given_argument or 'no argument'}")


# ------------------------------------------------------------------------------------------------------------------
_CONVERTERS = "torch_tensorrt.dynamo.conversion."
_R = semconv.FallbackReason
WHY = {
    _R.NO_CONVERTER: "no converter",
    _R.VALIDATOR_REFUSED: "refused by its converter",
    _R.USER_EXCLUDED: "excluded by you",
    _R.COMPLEX_DTYPE: "complex numbers",
    _R.DATA_DEPENDENT: "data-dependent shape",
    _R.MIN_BLOCK_SIZE: "group smaller than min_block_size",
    _R.NO_SUPPORTED_OPERATORS: "nothing in the graph has a converter",
    _R.COMPILE_FAILED: "conversion or build failed",
}
"""Why an operator is in PyTorch, in the words of a line."""


def failures(nodes: list[Node]) -> list[Failure]:
    """The innermost failures, in the order of their start."""
    failed = (node for node in nodes if _labels.error(node.span)[0])
    return [_failure(node) for node in failed if not any(_labels.error(child.span)[0] for child in node.children)]


def _failure(node: Node) -> Failure:
    kind, message = _labels.error(node.span)
    export = _failed_export(node)
    if export is not None:
        kind, message = _labels.error(export.span)[0], str(export.span.attributes[semconv.EXPORT_FAILED_REASON])
    stage = _labels.short((export or node).span)
    return Failure(
        sentence_pieces=words(_sentence(kind, stage, message)),
        remedy_pieces=() if export else _advice(node),
        type=kind,
        message=message,
        stage=stage,
        is_caught=False,
        details=tuple(_constraints(export, 2) if export else _details(node, has_message=bool(message))),
    )


def _sentence(kind: str, stage: str, message: str) -> str:
    return f"{kind} in {stage}: {message}" if message else f"{kind} in {stage}"


def _failed_export(node: Node) -> Node | None:
    """The export, or the trace, that failed for what failed in the node, and says more than that an exception was raised."""
    failed: Node | None = node
    while failed is not None and semconv.EXPORT_FAILED_REASON not in failed.span.attributes:
        failed = failed.parent
    if failed is None or semconv.ExportFailure.RAISED in str(failed.span.attributes[semconv.EXPORT_FAILED_REASON]):
        return None
    return failed


def _constraints(node: Node, at_least: int) -> Iterator[Paragraph]:
    constraints = strings(node.span.attributes, semconv.VIOLATED_CONSTRAINTS)
    if len(constraints) >= at_least:
        yield listed(constraints)


def _details(node: Node, *, has_message: bool) -> Iterator[Paragraph]:
    attributes = node.span.attributes
    if not has_message:
        yield from _without_message(node)
    for failed in filter(None, (node, node.parent)):  # a backend's phase, and its frame
        yield from _frame_answer.cause(failed.span.attributes)
    if node.span.name != phase.COMPILE_FRAME.name:  # its place is where the function begins
        yield from _operator(attributes)
    yield from _constraints(node, 1)
    blocking = _blocking(attributes)
    if blocking:
        yield blocking
        yield from refusals([attributes])


def _without_message(node: Node) -> Iterator[Paragraph]:
    event = next((event for event in node.span.events if event.name == "exception"), None)
    if event is not None:
        place = _place(event.attributes)
        if place:
            yield ("raised", "at", *place)
        yield words("its message is not in the table of messages; --text shows it if the file has it")
    elif node.span.name == phase.BUILD_ENGINE.name:
        logger = node.span.attributes.get(semconv.BUILD_LOGGER)
        printed = f"what {logger} printed" if logger else "what the program's logger printed"
        yield words(f"TensorRT's own log has the reason: {printed}; a subclass of ILogger in Python would be recorded")


def _operator(attributes: Attributes) -> Iterator[Paragraph]:
    """The operator, its node and its place in the program; then the converter."""
    name = attributes.get(semconv.FAILED_OPERATOR) or attributes.get(semconv.EXPORT_FAILED_OPERATOR)
    place = _place(attributes)
    position = number(attributes, semconv.FAILED_NODE_POSITION)
    count = number(attributes, semconv.FAILED_NODES)
    if name:
        node = f"node {position:.0f} of {count:.0f}" if position is not None and count is not None else ""
        own_name = attributes.get(semconv.FAILED_NODE_NAME)
        what = ", ".join(filter(None, (own_name and f"%{own_name}", node)))
        yield (operator(str(name)), *words(f"({what})" if what else ""), *(("at", *place) if place else ()))
    elif place:
        yield ("at", *place)
    converter = attributes.get(semconv.FAILED_CONVERTER)
    if converter:
        yield "converter", str(converter).removeprefix(_CONVERTERS)


def _place(attributes: Attributes) -> Paragraph:
    """`model.py:12 in forward`; empty without a place."""
    place, function = source_line(attributes), attributes.get(semconv.CODE_FUNCTION)
    if not place:
        return ()
    return (place, *(("in", str(function)) if function else ()))


def _blocking(attributes: Attributes) -> Paragraph:
    """The operators for which a compilation failed that was to be full."""
    names = strings(attributes, semconv.UNSUPPORTED_NAMES)
    reasons = strings(attributes, semconv.UNSUPPORTED_REASONS)
    counts = numbers(attributes, semconv.UNSUPPORTED_COUNTS)
    if not names or not len(names) == len(reasons) == len(counts):
        return ()
    items = [
        f"{operator(name)} {times(count)} ({WHY.get(reason, reason)})"
        for name, count, reason in zip(names, counts, reasons, strict=True)
    ]
    omitted = number(attributes, semconv.UNSUPPORTED_OMITTED)
    if omitted:
        items.append(plural(int(omitted), "more kind"))
    return (*words("not for TensorRT:"), *listed(items))


# --- what to do -------------------------------------------------------------------------------------------------
def _advice(node: Node) -> Paragraph:
    """What to change, as code to paste; empty where nothing is known."""
    attributes = node.span.attributes
    work = _work_around(node)
    if work is not None and work.span.name == phase.CONVERT_TO_ENGINE.name:  # nothing could run elsewhere
        return ()
    if strings(attributes, semconv.UNSUPPORTED_NAMES):
        return remedies.remedy("partial_compilation")
    operator_name = str(attributes.get(semconv.FAILED_OPERATOR) or "")
    if "." not in operator_name or work is None:  # a node without an operator
        return ()
    around = work.span.attributes
    excluded = [*strings(around, semconv.SETTINGS["torch_executed_ops"]), operator_name]
    quoted = listed(f'"{name}"' for name in dict.fromkeys(excluded))
    if around.get(semconv.ENTRY_POINT) == "torch.compile":
        return remedies.remedy("excluded_in_options", '"torch_executed_ops":', *_braced("", quoted))
    full = around.get(semconv.SETTINGS["require_full_compilation"]) is True
    partial = ("and", "require_full_compilation=False") if full else ()
    return remedies.remedy("excluded", *_braced("torch_executed_ops=", quoted), *partial)


def _braced(before: str, items: Paragraph) -> Paragraph:
    pieces = list(items)
    pieces[0] = f"{before}{{{pieces[0]}"
    pieces[-1] += "}"
    return tuple(map(Code, pieces))


def _work_around(node: Node) -> Node | None:
    """The compilation, or other work on a whole model, in which this is."""
    names = {phase.COMPILE.name, phase.CONVERT_TO_ENGINE.name}
    around: Node | None = node
    while around is not None and around.span.name not in names:
        around = around.parent
    return around
