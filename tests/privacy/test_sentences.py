# SPDX-License-Identifier: Apache-2.0
"""What leaves does not depend on what the program says: whatever the sentence, the output is one and the same."""

import importlib
import inspect
import json

import pytest
import torch
import torch_tensorrt
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from privacy.sentences import COUNT, PATIENT, SENTENCES, WORDS
from support.engines import extend
from support.tree import without_clocks
from torchspan import phase
from torchspan.engine import Engine, Occurrence
from torchspan.hooks.probes import Call, signature_of
from torchspan.hooks.probes.describe import declarations, frames
from torchspan.output.writer import SpanWriter
from torchspan.words import semconv
from torchspan.words.redaction import messages
from torchspan.words.redaction.code_texts import texts_of
from torchspan.words.redaction.message_table import table

settings.register_profile("sentences", deadline=None, database=None, derandomize=True)
settings.load_profile("sentences")
X = torch.ones(2, 4)
LINEAR = torch.nn.Linear(2, 2)


class Own(Exception):
    """A class of the program."""


def raise_(error):
    raise error


def raise_from(sentence):
    try:
        raise KeyError(sentence)
    except KeyError as cause:
        raise RuntimeError(sentence) from cause


RAISED = {
    # by the program
    "RuntimeError": lambda sentence: raise_(RuntimeError(sentence)),
    "KeyError": lambda sentence: {}[sentence],
    "AssertionError": lambda sentence: raise_(AssertionError(sentence)),
    "a class of its own": lambda sentence: raise_(Own(sentence, 4711)),
    "OSError": lambda sentence: raise_(OSError(2, sentence, sentence)),
    "with a cause": raise_from,
    "a message of two lines": lambda sentence: raise_(ValueError(f"{sentence}\n{sentence}")),
    "a message of 70 kB": lambda sentence: raise_(ValueError(sentence * 2_500)),
    "a message that begins like TensorRT's": lambda sentence: raise_(ValueError(f"Error Code 3: {sentence}")),
    # by the standard library, which quotes it
    "int": int,
    "float": float,
    "json": lambda sentence: json.loads(f"({sentence})"),  # JSON has words of its own, such as Infinity
    "open": open,
    "import": lambda sentence: importlib.import_module(sentence.replace(".", "")),
    "an attribute of an object": lambda sentence: getattr(object(), sentence),
    "a keyword": lambda sentence: len(**{sentence: 1}),
    # by PyTorch, which raises the words of its caller
    "torch._check": lambda sentence: torch._check(False, lambda: sentence),
    "torch._check_value": lambda sentence: torch._check_value(False, lambda: sentence),
    "torch._assert": lambda sentence: torch._assert(False, sentence),
    "torch._assert_async": lambda sentence: torch._assert_async(torch.tensor(False), sentence),
    "aten._assert_async": lambda sentence: torch.ops.aten._assert_async.msg(torch.tensor(False), sentence),
    # by PyTorch, which quotes it
    "a key of a ModuleDict": lambda sentence: torch.nn.ModuleDict({})[sentence],
    "an attribute of a module": lambda sentence: getattr(LINEAR, sentence),
    "an attribute of a tensor": lambda sentence: getattr(X, sentence),
    "an attribute of a package": lambda sentence: getattr(torch, sentence),
    "an operator": lambda sentence: getattr(torch.ops.aten, sentence),
    "an overload": lambda sentence: getattr(torch.ops.aten.add, sentence),
    "an unexpected key": lambda sentence: LINEAR.load_state_dict({**LINEAR.state_dict(), sentence: X}),
    "a missing key": lambda sentence: module_with_buffer(sentence).load_state_dict({}),
    "a device": torch.device,
    "a size": lambda sentence: X.view(sentence),
    "an argument of an operator": lambda sentence: torch.add(X, sentence),
    "an argument of a function": lambda sentence: torch.zeros(sentence),
    "a gain": torch.nn.init.calculate_gain,
    "a mode": lambda sentence: torch.nn.functional.interpolate(X[None], scale_factor=2, mode=sentence),
    "a padding": lambda sentence: torch.nn.Conv2d(1, 1, 1, padding_mode=sentence),
    "a file": torch.load,
    "a compiled function": lambda sentence: torch._dynamo.exc.unimplemented(
        gb_type=sentence, context=sentence, explanation=sentence, hints=[sentence]
    ),
}  # fmt: skip
"""Place -> raises an exception with the sentence as its message, or in it."""


def module_with_buffer(name):
    module = torch.nn.Module()
    module.register_buffer(name.replace(".", ""), X)
    return module


TEXTS = {
    "a message": (semconv.PARSER_ERROR, "{}"),
    "a parser's error in a node": (
        semconv.PARSER_ERROR,
        "In node 4 with name: {} and operator: Resize (importResize): UNSUPPORTED_NODE: {}",
    ),
    "an error of TensorRT": (
        semconv.BUILD_ERROR,
        "IBuilder::buildSerializedNetwork: Error Code 4: API Usage Error ({})",
    ),
    "an error with its place": (semconv.BUILD_ERROR, "[allocator.cpp::allocate::31] Error Code 1: {}"),
    "an error of a layer": (
        semconv.BUILD_ERROR,
        (
            "IBuilder::buildSerializedNetwork: Error Code 4: API Usage Error ({}: volume mismatch. Input dimensions [2,3] have volume 6 and "
            "output dimensions [4,4] have volume 16. In validate at /_src/optimizer/api/layers/shuffleLayer.cpp:169)"
        ),
    ),
    "an error behind a name": (semconv.BUILD_ERROR, "ITensor::getDimensions: Error Code 4: Shape Error ({}: {})"),
    "a line of the parser": (semconv.PARSER_ERROR, "ModelImporter.cpp:141: {}"),
    "a node of the parser": (
        semconv.PARSER_ERROR,
        "In node 4 with name: {} and operator: Reshape (parseNode): INVALID_NODE: {}",
    ),
    "a guard on a value": (semconv.RECOMPILE_REASON, "L['x'] == {!r}"),
    "a guard on a key": (semconv.RECOMPILE_REASON, "L['settings'][{!r}] == {!r} and len(L['x']) == 3"),
    "a guard on a tensor": (
        semconv.RECOMPILE_REASON,
        "tensor 'L['d'][{!r}]' size mismatch at index 0. expected 3, actual 4",
    ),
    "a guard that is none": (semconv.RECOMPILE_REASON, "{}"),
    "a failure of an export": (semconv.EXPORT_FAILED_REASON, "{}"),
    "a type of graph break": (semconv.GRAPH_BREAK_TYPE, "{}"),
    "a phase of a build": (semconv.BUILD_PHASE_NAME, "{}"),
    "a name": (semconv.MODEL_CLASS, "{}"),
    "the name of an operator": (semconv.FAILED_OPERATOR, "{}"),
    "a place in code": (semconv.CODE_FILE, "{}"),
}
"""Place -> the attribute, and its text with the sentence in it."""


def facts_of_breaks(sentence):
    """What Dynamo's reports become: reasons of graph breaks, of regions that are left out, of frames and of restarts."""
    asked = f"Call to `torch._dynamo.graph_break()`\n  Explanation: User-inserted graph break. Message: {sentence}\n  Hint: {sentence}\n"
    disabled = (
        "Skip calling `torch.compiler.disable()`d function\n  Explanation: Skip calling function `<function f at 0x7f>` since it "
        f"was wrapped with `torch.compiler.disable` (reason: {sentence})\n  Hint: Remove the `torch.compiler.disable` call\n"
    )
    metrics = {"fail_reason": sentence, "restart_reasons": {sentence, asked}}
    yield from (frames.of_reason(text) for text in (sentence, asked, disabled))
    yield from (declarations.of_break(text).facts() for text in (asked, disabled))
    yield frames.summary(metrics, None, None)
    call = Call(signature_of(log_graph_break), (None, {}, asked, unsupported(sentence)), {})
    yield frames.graph_break(call)


def log_graph_break(self, code_options, reason, exc):
    """The signature of Dynamo's own."""


def unsupported(sentence):
    """The exception of a graph break as PyTorch raises it, with the sentence in everything that the break says."""
    with pytest.raises(torch._dynamo.exc.Unsupported) as caught:
        torch._dynamo.exc.unimplemented(
            gb_type="Call to `torch._dynamo.graph_break()`",
            context=sentence,
            explanation=f"User-inserted graph break. Message: {sentence}",
            hints=[sentence, "Remove the `torch._dynamo.graph_break()` call."],
        )
    return caught.value


@pytest.fixture(scope="module")
def left():
    """`left(place, sentence)`: everything that leaves: a span without its times and ids."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    engine = Engine()
    extend(engine, SpanWriter(provider))
    redact = messages.line_reader(capture_text=False)

    def close(error=None, occurrences=(), **facts):
        event = engine.open(phase.BUILD_ENGINE, {})
        event.occurrences += [Occurrence(name, event.start_ns, attributes) for name, attributes in occurrences]
        event.additions.update(facts)
        engine.close(event, error)

    def reduced(place, sentence):
        exporter.clear()
        if place in RAISED:
            close(raised(RAISED[place], sentence))
        elif place == "a line of a log":
            lines = (sentence, f"Skipping tactic {sentence} due to exception {sentence}", f"{sentence}\n{sentence}")
            close(occurrences=[("tensorrt.log", {semconv.LOG_MESSAGE: redact(line)}) for line in lines])
        elif place == "a graph break":
            close(occurrences=[("torch.compile.graph_break", dict(facts)) for facts in facts_of_breaks(sentence)])
        else:
            key, text = TEXTS[place]
            close(**{str(key): text.format(sentence, sentence), "error.type": "engine_build_failed"})
        (span,) = exporter.get_finished_spans()
        events = [(event.name, dict(event.attributes)) for event in span.events]
        return span.name, without_clocks(span.attributes), span.status.description, events

    return reduced


def raised(call, sentence):
    try:
        call(sentence)
    except Exception as error:
        return error
    raise AssertionError(f"nothing was raised for: {sentence}")


PLACES = (*RAISED, *TEXTS, "a line of a log", "a graph break")


@pytest.mark.parametrize("place", PLACES)
def test_in_each_place_every_sentence_gives_the_same_output(left, place):
    assert len(SENTENCES) == len(set(SENTENCES)) == COUNT
    expected = left(place, PATIENT)
    assert "patient" not in str(expected)
    assert [(sentence, output) for sentence in SENTENCES if (output := left(place, sentence)) != expected] == []


def test_class_and_place_leave_for_each_exception(left):
    for place in RAISED:
        *_, ((_, attributes),) = left(place, PATIENT)
        assert {"exception.type", "code.function.name", "code.file.path", "code.line.number"} <= attributes.keys()


# --- rows of the table -----------------------------------------------------------------------------------------
ROWS = [row for row in table().rows if row.holes]


@pytest.mark.parametrize("sentences", [SENTENCES[:10], pytest.param(SENTENCES, marks=pytest.mark.slow)], ids=len)
def test_in_each_hole_of_each_row_every_sentence_gives_the_same_output(sentences):
    several = {}
    for row in ROWS:
        outputs = {str(messages.of_text(sentence.join(row.literals))) for sentence in sentences}
        if len(outputs) > 1 or "patient" in str(outputs):
            several["{}".join(row.literals)] = outputs
    assert several == {}


def test_in_a_hole_the_end_of_a_sentence_does_not_show():
    sentences = [f"{PATIENT[:-1]}{end}" for end in (*".!?,;:)]}'\"", "...", ".)", "")]
    several = {}
    for row in ROWS:
        outputs = {str(messages.of_text(sentence.join(row.literals))) for sentence in sentences}
        if len(outputs) > 1:
            several["{}".join(row.literals)] = outputs
    assert several == {}


def test_in_one_hole_of_a_row_every_sentence_gives_the_same_output():
    several = {}
    for number, row in enumerate(ROWS):
        for hole in range(len(row.holes)):
            before, after = "?".join(row.literals[: hole + 1]), "?".join(row.literals[hole + 1 :])
            sentences = (PATIENT, SENTENCES[number % COUNT], SENTENCES[(number + hole + 250) % COUNT])
            outputs = {str(messages.of_text(f"{before}{sentence}{after}")) for sentence in sentences}
            if len(outputs) > 1 or "patient" in str(outputs):
                several["{}".join(row.literals), hole] = outputs
    assert several == {}


# --- texts in the code of libraries --------------------------------------------------------------------------------
MODULES = (
    torch.nn.functional,
    torch.nn.modules.module,
    torch.functional,
    torch._dynamo.eval_frame,
    torch_tensorrt._compile,
)


def codes_of(module):
    """The code of each function and method of a module."""
    holders = [module, *(each for each in vars(module).values() if isinstance(each, type))]
    functions = [each for holder in holders for each in vars(holder).values() if inspect.isfunction(each)]
    return [each.__code__ for each in functions if each.__module__ == module.__name__]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_in_each_text_of_a_librarys_code_every_sentence_gives_the_same_output(module):
    tables = [texts_of(code) for code in codes_of(module)]
    texts = [(each, row) for each in tables for row in each.rows if row.holes]
    assert len(texts) > 10
    several = {}
    for number, (of_function, row) in enumerate(texts):
        sentences = (PATIENT, SENTENCES[number % COUNT], SENTENCES[(number + 250) % COUNT])
        outputs = {of_function.kept(sentence.join(row.literals)) for sentence in sentences}
        if len(outputs) > 1 or "patient" in str(outputs):
            several["{}".join(row.literals)] = outputs
    assert several == {}


# --- sentences that Hypothesis writes ----------------------------------------------------------------------------
drawn = st.builds(
    lambda words, mark, end: f"{words[0].capitalize()}{mark} {' '.join(words[1:])}{end}",
    st.lists(st.sampled_from(WORDS), min_size=5, max_size=30),
    st.sampled_from(["", ",", " -", "'s", " (or", "...", '"']),
    st.sampled_from(["", ".", "?", "!", ")", "'", " ...", " 4711"]),
)
OF_HYPOTHESIS = ("RuntimeError", "a key of a ModuleDict", "torch._check", "a line of a log", "a graph break", *TEXTS)


@settings(max_examples=300)
@given(drawn, st.sampled_from(OF_HYPOTHESIS))
def test_a_sentence_that_hypothesis_draws_gives_that_output_too(left, sentence, place):
    assert left(place, sentence) == left(place, PATIENT)
