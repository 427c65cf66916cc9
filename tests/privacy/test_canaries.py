# SPDX-License-Identifier: Apache-2.0
"""Nothing of the user's in what leaves the process: a value in every place where one can be, looked for in every byte."""

import base64
from importlib.metadata import version

import pytest
from packaging.version import Version

from privacy import haystack, places
from torchspan.words import semconv

captures = pytest.mark.parametrize(
    "capture", ["local", *(pytest.param(word, marks=pytest.mark.slow) for word in ("none", "text"))]
)

TEXTS = {
    "exception.message",
    "tensorrt.log.message",
    "tensorrt.build.error",
    "tensorrt.parser.error",
    "span.status",
    "torch.compile.aotautograd_cache.bypass_reason",
    "torch.compile.declaration.reason",
    "torch.compile.failure.reason",
    "torch.compile.graph_break.hints",
    "torch.compile.graph_break.reason",
    "torch.compile.recompile.reason",
    "torch.compile.recompile.reasons",
    "torch.operator.name",
    "torch.operators.names",
}
"""What holds whole texts with TORCHSPAN_CAPTURE=text, as docs/explanation/privacy.md says."""

PLACES_OF_CODE = {"code.file.path"}
"""What is absolute with TORCHSPAN_CAPTURE=text."""

OWN_BYTES = {"file", "traces", "metrics", "terminal"}
"""The program's own spans and metrics are in these as well; what torchspan wrote there is looked at by its key."""


OWN_WORDS = frozenset().union(*(place.perhaps for place in places.PLACES.values() if place.form in places.FORMS))
"""The program's own words to its own user: names of its spans in the file, and its log."""


def allowed(place, capture):
    keys = places.PLACES[place].keys | places.PLACES[place].perhaps
    return keys | TEXTS | PLACES_OF_CODE if capture == "text" else keys


# --- whole texts in the user's own file -------------------------------------------------------------------------
@captures
def test_whole_texts_are_in_the_file_alone_and_only_with_local(canaries, capture):
    run = canaries(capture)
    keys = {key for _, key in run.local}
    if capture == "local":
        assert WHOLE_IN_THE_FILE - run.local == set()
        assert keys <= TEXTS - {"span.status"}
    else:
        assert keys == set()
    assert [name for name, content in run.carriers.items() if haystack.LOCAL.encode() in content] == (
        ["file"] if capture == "local" else []
    )


@captures
def test_the_program_plants_a_canary_in_every_place_of_the_table(canaries, capture):
    run = canaries(capture)
    assert run.problems == []
    assert set(places.PLACES) - run.planted == set()
    assert len(run.planted) >= 200


@captures
def test_what_torchspan_writes_has_no_canary_but_names_where_names_may_be(canaries, capture):
    found = canaries(capture).seen
    assert sorted((place, key) for place, key in found if key not in allowed(place, capture)) == []


def test_the_program_has_every_attribute_with_a_string(canaries):
    found = {each.key for each in canaries("local").found}
    assert {str(row) for row in semconv.ATTRIBUTES if row.type.startswith("string")} - found == set(NOT_IN_THE_PROGRAM)


NOT_IN_THE_PROGRAM = {
    "torch.compile.declaration.reason": "nothing leaves of a text of the program",
    "torch.compile.inductor_cache.disabling_variables": "a variable would have to disable the cache",
    "torch.compile.graph_break.inside": "Python code of a library would have to break the graph",
    "torchspan.run.signal": "the program would have to die of a signal",
    "torchspan.serving.kind": "the program would have to say that it serves",
    "torchspan.dropped.reason": "a trace would have to have two thousand spans",
    **dict.fromkeys(
        ("host.name", "process.runtime.name", "process.runtime.version", "torch.distributed.run.id"),
        "a variable would have to name torchspan's resource detector",
    ),
    "torch_tensorrt.stand_in.decomposed_operators": "the program would have to compile attention through torch.compile",
    "torch_tensorrt.fallback.stand_in_operators": "the program would have to compile an LSTM through torch.compile",
    "torchspan.gpu_time.missing": "CUDA would have to be initialized",
    "tensorrt.layers.names": "TensorRT's profiler needs a GPU; `test_typed_values` and `test_layer_names` have the names",
    "torch_tensorrt.timing_cache.file": "TensorRT-RTX has no timing cache",
    "torch_tensorrt.engine_cache.rejected.settings": "an entry would have to be written under a wrong key",
}


def test_progress_passes_children_and_log_records_are_among_what_is_looked_at(canaries):
    run = canaries("local")
    names = {each.text for each in run.found if each.key == "span.name"}
    assert {"torchspan.progress", "torchspan.run", "torch_tensorrt.pass constant_fold", "torchspan.import"} <= names
    assert "torchspan" in {each.owner for each in run.found if each.key == "log.body"}
    records = {each.text for each in run.found if each.key == "log.event_name"}
    assert {"torch_tensorrt.compile.exception", "torch.export.exception"} <= records
    assert {"torch.compile.graph_break", "torch.compile.recompile", "tensorrt.log", "torchspan.input"} <= records
    assert len({each.text for each in run.found if each.key == "process.pid"}) >= 5


@pytest.mark.slow
def test_with_captured_text_each_kind_of_message_is_whole(canaries):
    assert WHOLE - canaries("text").seen == set()


WHOLE = {
    ("exception.message", "exception.message"),
    ("check.plain", "exception.message"),
    ("load.missing", "exception.message"),
    ("converter.raises.plain", "exception.message"),
    ("trt.layer.slice", "tensorrt.log.message"),
    ("onnx.op_type.text", "tensorrt.parser.error"),
    ("function.file.home", "code.file.path"),
}


IS_BEFORE_2_13 = Version(version("torch-tensorrt-rtx")) < Version("2.13")
if not IS_BEFORE_2_13:  # the last error of TensorRT-RTX 1.4 is that of the CUDA runtime, which names no layer
    WHOLE |= {("trt.layer.slice", "tensorrt.build.error"), ("trt.layer.slice", "span.status")}

WHOLE_IN_THE_FILE = {(place, key) for place, key in WHOLE if key in TEXTS - {"span.status"}}


def test_every_name_that_may_be_seen_is_seen_under_its_keys(canaries):
    found = canaries("local").seen
    expected = {(place.name, key) for place in places.PLACES.values() for key in place.keys}
    not_there = {("engine.name.identifier", "torch_tensorrt.engine.name")} if IS_BEFORE_2_13 else set()
    assert expected - found == not_there


def test_words_that_several_places_share_are_nowhere_without_captured_text(canaries):
    assert sorted((key, text) for key, text in canaries("local").shared if key not in OWN_WORDS) == []


@pytest.mark.slow
def test_with_captured_text_such_words_are_in_texts_alone(canaries):
    run = canaries("text")
    assert {key for key, _ in run.shared} - OWN_WORDS - TEXTS - PLACES_OF_CODE == set()


@captures
@pytest.mark.parametrize("carrier", ["file", "traces", "metrics", "reports", "terminal", "log"])
def test_no_byte_holds_a_canary_in_any_encoding(canaries, capture, carrier):
    run = canaries(capture)
    own = {place for place in places.PLACES if place.startswith("user.")} if carrier in OWN_BYTES else set()
    written = {
        place for place, _ in (run.seen | run.local if carrier == "file" else run.seen)
    }  # looked at one by one above
    assert (
        sorted(haystack.places_in(run.carriers[carrier]) - own - written - NAMED_TO_THE_USER.get(carrier, set())) == []
    )


NAMED_TO_THE_USER = {
    "terminal": {"child.crash.function", "child.crash.file"},
    "log": {"observer.callback.name", "callback.name"},
}
"""What a terminal, or the program's own log, says of the program to the program's own user."""


def test_a_file_of_observed_inputs_has_names_of_classes_and_parameters_and_no_other_canary(canaries):
    assert haystack.places_in(canaries("local").carriers["inputs"]) == NAMED_IN_A_FILE_OF_INPUTS


@pytest.mark.slow
def test_with_captured_text_a_file_of_observed_inputs_has_the_values(canaries):
    found = haystack.places_in(canaries("text").carriers["inputs"])
    planted = {name for name in places.PLACES if name.startswith("observed.")}
    assert planted - found == {"observed.opaque.text", "observed.opaque.value", "observed.long_string"}
    assert found <= planted


NAMED_IN_A_FILE_OF_INPUTS = {
    "observed.class.identifier",
    "observed.parameter.name",
    "observed.opaque.identifier",
    "observed.namedtuple.field",
}
"""Identifiers of the program's code."""


def test_a_child_has_the_baggage_and_one_with_an_emptied_environment_has_none(canaries):
    environments = canaries("local").environments
    assert haystack.surnames(environments["inherited"]["BAGGAGE"]) == {"child.baggage.key", "child.baggage.value"}
    assert haystack.surnames(str(environments["emptied"])) == {"child.emptied.variable"}
    assert "BAGGAGE" not in environments["emptied"]


@pytest.mark.parametrize(
    "hidden",
    [
        b"...abernathy...",
        b"{ABERNATHY}",
        base64.b64encode(b"Miss Abernathy buys"),
        base64.b64encode(b"xMiss Abernathy buys"),
        base64.b64encode(b"xxMiss abernathy buys"),
        b"Abernathy".hex().encode(),
        b"Abernathy".hex().upper().encode(),
        b"%41%62%65%72%6e%61%74%68%79",
        rb"\u0041\u0062\u0065\u0072\u006e\u0061\u0074\u0068\u0079",
        "Abernathy".encode("utf-16-le"),
        "Abernathy".encode("utf-16-be"),
    ],
)
def test_a_canary_is_found_however_it_is_written(hidden):
    assert haystack.places_in(b"\x0a\x12 before " + hidden + b"\x00 after") == {"model.class.identifier"}


def test_what_holds_no_canary_has_none():
    assert haystack.places_in(b"torch_tensorrt.compile" * 100) == set()
