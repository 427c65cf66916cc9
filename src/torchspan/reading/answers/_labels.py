# SPDX-License-Identifier: Apache-2.0
"""What one line of the waterfall says about one span."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from torchspan.reading.answers import _frame_answer
from torchspan.reading.answers._attributes import number, numbers, operator, strings
from torchspan.reading.answers._built_engines import engine_name
from torchspan.reading.answers._device_times import device_text
from torchspan.reading.answers._operator_rows import operator_rows
from torchspan.reading.answers.lines import Style
from torchspan.reading.answers.units import duration, plural, size, times
from torchspan.reading.traces import Node, Span, UnfinishedSpan
from torchspan.words import phase, semconv

SEPARATOR = " · "
_NOTABLE_STEP = 0.05
_LONG_NS, _NOTABLE_WAIT = 100_000_000, 0.1
"""From which duration on, and from which share of it as a difference, the time on the processor is said."""
_WAITING = frozenset({phase.COMPILE_PHASE.name, phase.COMPILE_WORKER.name, phase.COMPILE_WAIT.name})
"""Work that waits for other processes anyway; the frame around it says how much."""
_MOST_INPUTS = 3
_MOST_LOGGED = 2
_SAID_BY_ALL = ("torch_tensorrt.", "tensorrt.", "torch.", f"{phase.OBSERVED.name} ")
"""Beginnings of names that tell nothing where names are short."""
_TARGETS = (semconv.BUILD_PHASE_NAME, semconv.PASS_NAME, semconv.COMPILE_PHASE_NAME)
_STEPS = (semconv.STEP_NAMES, semconv.STEP_COUNTS, semconv.STEP_DURATIONS)
_CONVERTERS = (semconv.CONVERTER_OPERATORS, semconv.CONVERTER_COUNTS, semconv.CONVERTER_DURATIONS)
_SUBJECTS = (semconv.CACHE_INSERTED, semconv.MODEL_CLASS, semconv.IMPORT_MODULE)


@dataclass(frozen=True, slots=True)
class Fact:
    """One statement, with its role on the line."""

    text: str
    style: Style = Style.DIM


class StepRows(NamedTuple):
    """Short pieces of work inside a span: name, how often, nanoseconds."""

    name: str
    runs: int
    ns: int


def subject(span: Span) -> str:
    """Which engine, model or outcome the span concerns; empty where it has none."""
    keys = (semconv.CACHE_RESULT,) if span.name == phase.CACHE_LOOKUP.name else _SUBJECTS
    if semconv.ENGINE_NAME in span.attributes:
        return engine_name(span.attributes)
    return _frame_answer.subject(span) or next(
        (str(span.attributes[key]) for key in keys if span.attributes.get(key)), ""
    )


def label(node: Node) -> tuple[str, str]:
    """The span's name and its subject; the subject is empty where the line above has said it."""
    own, around = subject(node.span), "" if node.parent is None else subject(node.parent.span)
    if around and own.startswith(f"{around}{SEPARATOR}"):
        return _name(node), own.removeprefix(f"{around}{SEPARATOR}")
    return _name(node), "" if around == own else own


def is_fine(span: Span) -> bool:
    """Whether the span is a detail (a lowering pass, a phase of TensorRT's builder) of the one above it."""
    return semconv.BUILD_PHASE_NAME in span.attributes or semconv.PASS_NAME in span.attributes


def _name(node: Node) -> str:
    """The span's name; below a span of the same kind its target alone, `Timing tactics`."""
    is_nested = node.parent is not None and any(
        key in node.span.attributes and key in node.parent.span.attributes for key in _TARGETS
    )
    return target(node.span) if is_nested else node.span.name


def target(span: Span) -> str:
    """The pass or builder phase that the span's name ends in; empty where there is none."""
    for key in _TARGETS:
        if text := span.attributes.get(key):
            return str(text)
    return ""


def lasted(nodes: Sequence[Node]) -> str:
    """How long the nodes took together; at least, where one of them did not end."""
    text = duration(sum(node.span.duration_ns for node in nodes))
    return f"≥ {text}" if any(isinstance(node.span, UnfinishedSpan) for node in nodes) else text


def short(span: Span) -> str:
    """The span's target, or its name without the library: what the answers under the waterfall call it."""
    return without_library(str(target(span) or span.name))


@functools.lru_cache(maxsize=256)
def without_library(name: str) -> str:
    """`build_engine` of `tensorrt.build_engine`; other names are returned as they are."""
    return next((name.removeprefix(prefix) for prefix in _SAID_BY_ALL if name.startswith(prefix)), name)


def facts(node: Node) -> list[Fact]:
    """The numbers that matter, fallback and errors; what the parent's line says already is left out.

    That it failed, or did not end, each line says for itself.
    """
    said = set(_facts(node.parent)) if node.parent is not None else set()
    said.difference_update(_end(node.span))
    return [fact for fact in _facts(node) if fact not in said or fact.style is Style.ERROR]


def exit_of(span: Span) -> list[Fact]:
    """How the program of a span `torchspan.run` ended."""
    signal, code = span.attributes.get(semconv.RUN_SIGNAL), number(span.attributes, semconv.PROCESS_EXIT_CODE)
    if signal:
        return [Fact(f"died of {signal}", Style.ERROR)]
    if code is None:
        return []
    return [Fact(f"exit {code:.0f}", Style.FALLBACK if code else Style.DIM)]


def split(span: Span, own_ns: int) -> tuple[list[StepRows], int]:
    """The own time of a span, in nanoseconds: what is spent in its steps, converters and PyTorch's operators, and the rest."""
    steps = [
        *_steps_of(span, _STEPS),
        *(row._replace(name=operator(row.name)) for row in _steps_of(span, _CONVERTERS)),
        *(StepRows(row.name, row.runs, round(row.self_s * 1e9)) for row in operator_rows([span])),
    ]
    parts = []
    for step in steps:
        ns = min(step.ns, own_ns)
        own_ns -= ns
        parts.append(step._replace(ns=ns))
    return parts, own_ns


def _steps_of(span: Span, keys: tuple[str, str, str]) -> list[StepRows]:
    """The rows of the attributes with names, counts and seconds; none where the lists do not fit together."""
    if keys[0] not in span.attributes:
        return []
    names = strings(span.attributes, keys[0])
    counts, durations = (numbers(span.attributes, key) for key in keys[1:])
    if not len(names) == len(counts) == len(durations):
        return []
    return [StepRows(name, int(count), round(s * 1e9)) for name, count, s in zip(names, counts, durations, strict=True)]


def _facts(node: Node) -> list[Fact]:
    span = node.span
    facts = [
        Fact(text)
        for text in (
            *_operators(node),
            *_engines(span),
            *_inputs(span),
            *_files(span),
            *_graphs(span),
            *_runs(span),
            *_processor(span),
            *_steps(span),
        )
    ]
    facts += [Fact(text, Style.FALLBACK) for text in _frame_answer.notes(span)]
    facts += [*_serving(span), *_cache(span), *_fallback(span), *_refit(span), *_memory(span), *_last_seen(span)]
    return [*facts, *_end(span), *_log(span), *_error(node)]


def _processor(span: Span) -> list[str]:
    """How long the work was on the processor, where that is another time than its own."""
    process_s, thread_s = (number(span.attributes, key) for key in (semconv.CPU_PROCESS_TIME, semconv.CPU_THREAD_TIME))
    cpu_s = thread_s if process_s is None else process_s
    if (
        cpu_s is None
        or span.duration_ns < _LONG_NS
        or span.name.partition(" ")[0] in _WAITING
        or abs(cpu_s * 1e9 - span.duration_ns) < _NOTABLE_WAIT * span.duration_ns
    ):
        return []
    return [f"on the processor {duration(cpu_s * 1e9)} of {duration(span.duration_ns)}"]


def _serving(span: Span) -> list[Fact]:
    return [Fact("while serving", Style.FALLBACK)] if span.attributes.get(semconv.WHILE_SERVING) is True else []


def _end(span: Span) -> list[Fact]:
    if span.attributes.get(semconv.INCOMPLETE) is True:
        return [Fact("incomplete", Style.FALLBACK)]
    if isinstance(span, UnfinishedSpan):
        return [Fact("did not end", Style.FALLBACK)]
    return [Fact("ends before it starts", Style.FALLBACK)] if span.end_ns < span.start_ns else []


def _inputs(span: Span) -> list[str]:
    shapes = strings(span.attributes, semconv.INPUT_SHAPES) or strings(span.attributes, semconv.RUN_SHAPES)
    if not shapes:
        return []
    more = f" and {len(shapes) - _MOST_INPUTS} more" if len(shapes) > _MOST_INPUTS else ""
    return [f"{'input' if len(shapes) == 1 else 'inputs'} {', '.join(shapes[:_MOST_INPUTS])}{more}"]


def _log(span: Span) -> list[Fact]:
    """The first lines of TensorRT's log, errors first, with how often; the others are counted."""
    lines = [event.attributes for event in span.events if event.name == semconv.LOG_EVENT]
    lines.sort(key=lambda a: a.get(semconv.LOG_SEVERITY) == "WARNING")
    _, failure = error(span)
    told = [a for a in lines if a.get(semconv.LOG_MESSAGE) != failure]
    counts = {id(a): int(number(a, semconv.LOG_COUNT) or 1) for a in lines}
    facts = []
    for a in told[:_MOST_LOGGED]:
        severity = str(a.get(semconv.LOG_SEVERITY) or "log").lower().replace("_", " ")
        often = f" {times(counts[id(a)])}" if counts[id(a)] > 1 else ""
        facts.append(f"TensorRT {severity}{often}: {a.get(semconv.LOG_MESSAGE) or ''}".rstrip(" :"))
    rest = sum(counts[id(a)] for a in told[_MOST_LOGGED:])
    rest += int(number(span.attributes, semconv.LOG_OMITTED) or 0)
    if rest:
        facts.append(f"{plural(rest, 'more line')} of TensorRT's log")
    return [Fact(text, Style.FALLBACK) for text in facts]


def _operators(node: Node) -> list[str]:
    a = node.span.attributes
    around = {} if node.parent is None else node.parent.span.attributes
    facts = []
    total, inside, planned = (
        number(a, key) for key in (semconv.OPERATORS_TOTAL, semconv.OPERATORS_TENSORRT, semconv.OPERATORS_PLANNED)
    )
    if total is not None and planned is not None:
        if semconv.OPERATORS_TENSORRT not in around or semconv.OPERATORS_PLANNED in around:  # else it was carried out
            facts.append(f"{planned:.0f} of {total:.0f} ops planned for TensorRT")
    elif total is not None and inside is not None:
        facts.append(f"{inside:.0f} of {total:.0f} ops in TensorRT")
    elif total is not None:
        facts.append(plural(int(total), "op"))
    left, right = number(a, semconv.SUBGRAPHS_TENSORRT), number(a, semconv.SUBGRAPHS_TORCH)
    if left is not None and right is not None:
        inline = a.get(semconv.PARTITIONER) == "global"  # it leaves PyTorch's operators where they are
        facts.append(f"subgraphs: {left:.0f} TensorRT" + ("" if inline else f", {right:.0f} PyTorch"))
    operators = number(a, semconv.ENGINE_OPERATORS)
    if operators is not None:
        facts.append(plural(int(operators), "op"))
    return facts


def _engines(span: Span) -> list[str]:
    a = span.attributes
    facts = []
    engines, total = number(a, semconv.ENGINE_COUNT), number(a, semconv.ENGINES_SIZE)
    if engines is not None:
        planned = " planned" if a.get(semconv.SETTINGS["dryrun"]) is True else ""
        facts.append(plural(int(engines), "engine") + planned)
    if total and engines:
        facts[-1] += f" of {size(total)}" if engines == 1 else f", {size(total)} together"
    model = number(a, semconv.MODEL_SIZE)
    if model is not None:
        facts.append(size(model))
    layers, bytes_ = number(a, semconv.NETWORK_LAYERS), number(a, semconv.ENGINE_SIZE)
    if layers is not None:
        facts.append(plural(int(layers), "layer"))
    if bytes_ is not None:
        facts.append(size(bytes_))
    return facts


def _files(span: Span) -> list[str]:
    a = span.attributes
    format_, bytes_ = a.get(semconv.FILE_FORMAT), number(a, semconv.FILE_SIZE)
    files = [f"{format_ or 'file'}{'' if bytes_ is None else f' of {size(bytes_)}'}"] if format_ or bytes_ else []
    if a.get(semconv.DEFERRED) is True:
        files.append("compiles at its first call")
    return files


def _graphs(span: Span) -> list[str]:
    a = span.attributes
    before, after, nodes = (number(a, key) for key in (semconv.NODES_BEFORE, semconv.NODES_AFTER, semconv.NODES_COUNT))
    if before is not None and after is not None:
        return [f"{before:.0f} → {after:.0f} nodes" if before != after else plural(int(after), "node")]
    return [plural(int(nodes), "node")] if nodes is not None else []


def _runs(span: Span) -> list[str]:
    a = span.attributes
    runs = ["first run"] if a.get(semconv.EXECUTE_FIRST) is True or a.get(semconv.RUN_FIRST) is True else []
    runs += filter(None, [device_text(span)])
    for row in (row for row in phase.PHASES if row.folded is not None):
        folded, total, longest = (number(a, key) or 0 for key in row.folded or ())
        if folded:  # a function may call itself: the sum of its calls is not the time in which they ran
            in_all = "" if row is phase.OBSERVED else f"{duration(total * 1e9)} in all, "
            runs.append(f"+ {folded:.0f} runs, {in_all}longest {duration(longest * 1e9)}")
    without_room = number(a, semconv.FOLDED)
    if without_room:
        runs.append(f"+ {plural(int(without_room), 'span')} dropped (trace limit)")
    return runs


def _steps(span: Span) -> list[str]:
    if span.attributes.get(semconv.STAND_IN) is True:
        return []  # the steps of a stand-in mean as little as its duration
    return [
        f"{step.name} {duration(step.ns)}{f' ({times(step.runs)})' if step.runs > 1 else ''}"
        for step in _steps_of(span, _STEPS)
        if step.ns >= _NOTABLE_STEP * max(span.duration_ns, 1)
    ]


def _last_seen(span: Span) -> list[Fact]:
    if not isinstance(span, UnfinishedSpan) or span.running is None:
        return []
    return [Fact(f"last seen in {span.running.name} for {duration(span.running.for_ns)}", Style.FALLBACK)]


def _cache(span: Span) -> list[Fact]:
    """Of a lookup or an insertion: how large the entry is, and why it was of no use."""
    if span.name not in (phase.CACHE_LOOKUP.name, phase.CACHE_INSERT.name):
        return []
    bytes_, reason = number(span.attributes, semconv.CACHE_ENTRY_SIZE), span.attributes.get(semconv.CACHE_REASON)
    entry = [Fact(f"entry of {size(bytes_)}")] if bytes_ is not None else []
    return entry + ([Fact(str(reason), Style.FALLBACK)] if reason else [])


def _fallback(span: Span) -> list[Fact]:
    reasons = strings(span.attributes, semconv.FALLBACK_REASON_CLASSES)
    if not reasons or span.name == phase.CACHE_LOOKUP.name:
        return []
    names = [operator(name) for name in strings(span.attributes, semconv.FALLBACK_OPERATOR_NAMES)]
    if span.name in {phase.COMPILE.name, phase.REFIT.name} or not names:
        return [Fact("fallback: " + ", ".join(reasons), Style.FALLBACK)]
    counts = numbers(span.attributes, semconv.FALLBACK_OPERATOR_COUNTS)
    listed = _counted(names, counts)
    omitted = number(span.attributes, semconv.FALLBACK_OPERATORS_OMITTED)
    more = f", {plural(int(omitted), 'more kind')}" if omitted else ""
    return [Fact(f"in PyTorch: {', '.join(listed)}{more}", Style.FALLBACK)]


def _refit(span: Span) -> list[Fact]:
    differ = span.attributes.get(semconv.REFIT_OUTPUTS_MATCH) is False
    return [Fact("its outputs differ from the model's", Style.FALLBACK)] if differ else []


def _memory(span: Span) -> list[Fact]:
    """What TensorRT's log said about memory that did not suffice."""
    if span.attributes.get(semconv.OUT_OF_MEMORY) is not True:
        return []
    skipped = number(span.attributes, semconv.TACTICS_SKIPPED)
    text = f"short of memory: {plural(int(skipped), 'tactic')} skipped" if skipped else "short of memory"
    return [Fact(text, Style.FALLBACK)]


def _counted(names: Sequence[str], counts: Sequence[float]) -> list[str]:
    if len(names) != len(counts):
        return list(names)
    return [f"{name} {times(count)}" for name, count in zip(names, counts, strict=True)]


def _error(node: Node) -> list[Fact]:
    """Class and message; the class alone where a span below says the same, as those of the user's own code do."""
    kind, message = error(node.span)
    if message and any(error(child.span) == (kind, message) for child in node.children):
        message = ""
    return [Fact(f"{kind}: {message}" if message else kind, Style.ERROR)] if kind else []


def error(span: Span) -> tuple[str, str]:
    """Class and message of the exception that passed the span (the message where it was raised); empty without one."""
    kind = span.attributes.get(semconv.ERROR_TYPE)
    if not span.is_error and kind is None:
        return "", ""
    event = next((event for event in span.events if event.name == "exception"), None)
    if event is None:  # TensorRT raises nothing, its parser keeps a list
        said = str(span.attributes.get(semconv.PARSER_ERROR) or span.status_message)
        operators = ", ".join(strings(span.attributes, semconv.PARSER_FAILED_OPERATORS))
        return str(kind or "error"), operators if operators and said == "?" else said
    kind = kind or event.attributes.get(semconv.EXCEPTION_TYPE) or "error"
    message = str(event.attributes.get(semconv.EXCEPTION_MESSAGE) or span.status_message)
    return str(kind), message.removeprefix(f"{kind}: ")
