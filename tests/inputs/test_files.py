# SPDX-License-Identifier: Apache-2.0
"""Observed calls in a file: what is inferred of them is the same, and a file that is not whole is refused."""

import json
import os
import stat
from collections import OrderedDict, namedtuple

import pytest
import torch

from support.observed_calls import Add, Anything, Nested, Optional, Variadic, kinds, observed, ones, shapes
from torchspan.base.files import opening
from torchspan.inputs import Constant, InputFileError, InputObserver, NotWrittenError, TensorShape
from torchspan.inputs.observed.observations import SHAPES_LIMIT
from torchspan.inputs.written import documents

Pair = namedtuple("Pair", ["first", "second"])  # noqa: PYI024 - its class is what is looked up


class Cache:
    """A container that pytree knows only where a test registers it."""

    def __init__(self, tensors):
        self.tensors = tensors


@pytest.fixture
def registered():
    torch.utils._pytree.register_pytree_node(
        Cache, lambda cache: (list(cache.tensors), None), lambda tensors, _context: Cache(list(tensors))
    )
    yield
    torch.utils._pytree._deregister_pytree_node(Cache)


def reread(observer, **options):
    return InputObserver.from_json(observer.to_json(**options))


MIXED = [
    (ones(1, 5), ones(1, 5)),
    {"x": ones(4, 7), "y": ones(4, 7)},
    (ones(4, 7), ones(4, 7)),
    (ones(2, 30), ones(2, 30)),
]


# --- what is inferred ----------------------------------------------------------------------------------------------
def test_what_is_inferred_of_a_file_is_what_is_inferred_of_the_calls():
    observer = observed(Optional(), *MIXED)
    again = reread(observer)
    assert again.num_obs() == 4
    assert shapes(again.infer_arguments()) == shapes(observer.infer_arguments()) == {"x": (4, 7), "y": (4, 7)}
    assert again.infer_dynamic_shapes() == observer.infer_dynamic_shapes()
    assert again.infer_profile().to_python() == observer.infer_profile().to_python()
    assert again.findings() == observer.findings()
    assert again.report().partition("\n")[2] == observer.report().partition("\n")[2]


def test_tensors_have_their_data_type_again():
    again = reread(observed(Add(), (ones(2, dtype=torch.bfloat16), ones(2, dtype=torch.int64))))
    assert [each.dtype for each in again.infer_arguments()] == [torch.bfloat16, torch.int64]


def test_writing_what_was_read_gives_the_same_text():
    for values in (False, True):
        text = observed(Variadic(), (ones(2), ones(2)), {"x": ones(2), "scale": 3}).to_json(values=values)
        assert InputObserver.from_json(text).to_json(values=values) == text


def test_arguments_that_the_observer_left_out_are_left_out_of_what_is_read():
    observer = observed(Add(), *MIXED)
    observer.remove_inputs(["y"])
    assert shapes(reread(observer).infer_arguments()) == {"x": (4, 7)}


def test_what_stands_for_a_missing_argument_is_in_the_file():
    observer = observed(Optional(), (ones(2),), (ones(3), ones(3)), value_if_missing={"y": ones(0)})
    assert reread(observer).infer_dynamic_shapes() == observer.infer_dynamic_shapes()


def test_calls_beyond_the_limit_are_in_the_file_as_ranges():
    observer = observed(Add(), *[(ones(size), ones(size)) for size in range(SHAPES_LIMIT + 2)])
    again = reread(observer)
    assert again.findings() == observer.findings()
    assert ("beyond_limit", "") in kinds(again)
    assert again.report().partition("\n")[2] == observer.report().partition("\n")[2]


# --- containers ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "container",
    [
        [ones(2)],
        (ones(2), [ones(3)]),
        {"a": ones(2), 3: {"b": ones(3)}},
        OrderedDict(b=ones(2), a=ones(3)),
        Pair(ones(2), second=None),
    ],
    ids=["list", "tuple", "dict", "OrderedDict", "namedtuple"],
)
def test_a_container_is_built_again(container):
    (made,) = reread(observed(Nested(), (container,)), values=True).infer_arguments()
    assert type(made) is type(container)
    assert shapes(made) == shapes(container)


def test_positions_and_fields_are_structure_and_need_no_values():
    (made,) = reread(observed(Nested(), ([ones(2), Pair(ones(3), (ones(4),))],)), values=False).infer_arguments()
    assert shapes(made) == [(2,), Pair((3,), ((4,),))]


def test_a_class_that_is_registered_is_built_again(registered):
    observer = observed(Nested(), (Cache([ones(2), ones(3)]),))
    made = reread(observer).infer_arguments()[0]
    assert type(made) is Cache
    assert shapes(made.tensors) == [(2,), (3,)]


def test_a_class_that_is_not_registered_here_is_named_in_the_error(registered):
    observer = reread(observed(Nested(), (Cache([ones(2)]),)))
    torch.utils._pytree._deregister_pytree_node(Cache)
    try:
        assert observer.infer_dynamic_shapes() == ([{}],)
        with pytest.raises(
            NotWrittenError, match=r"the class .*Cache, which this process cannot build. Import its module"
        ):
            observer.infer_arguments()
    finally:
        torch.utils._pytree.register_pytree_node(Cache, lambda cache: (cache.tensors, None), lambda *_: None)


def test_an_opaque_object_is_a_finding_of_what_is_read_too():
    again = reread(observed(Anything(), (ones(2), Cache([]))))
    assert kinds(again) == [("opaque", "other")]
    assert "It is an object of the class Cache, of which nothing is recorded" in again.findings()[0].message


# --- constants -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "value", [3, True, 0.1, float("inf"), 1 + 2j, "a 'text'\n\udc80", torch.float16, torch.channels_last, torch.strided]
)
def test_with_values_a_constant_is_itself_again(value):
    made = reread(observed(Anything(), (ones(2), value)), values=True).infer_arguments()[1]
    assert type(made) is type(value)
    assert made == value


def test_without_values_a_constant_has_its_type_and_how_many_calls_had_each_value():
    observer = observed(Anything(), (ones(2), 7), (ones(2), 7), (ones(3), 8), (ones(3), 7))
    written = json.loads(observer.to_json(values=False))["observations"][0]
    leaves = [each["arguments"]["other"] for each in written["shapes"]]
    assert leaves == [
        {"type": "int", "calls": {"?0": 2}},
        {"type": "int", "calls": {"?1": 1, "?0": 1}},
    ]
    assert "It has at least 2 values in 4 calls" in reread(observer).findings()[0].message


def test_a_constant_that_is_needed_and_was_not_written_is_named_in_the_error():
    observer = reread(observed(Anything(), (ones(2), 7)))
    with pytest.raises(NotWrittenError, match=r"The file contains the type of other \(int\), but not its value"):
        observer.infer_arguments()
    assert observer.infer_arguments({"x": ones(2), "other": 9})[1] == 9
    observer.remove_inputs(["other"])
    assert shapes(observer.infer_arguments()) == ((2,),)


def test_an_argument_with_its_default_value_is_left_out_though_no_value_was_written():
    again = reread(observed(Optional(), (ones(2), ones(2), 1.0), (ones(3), ones(3), 1.0)))
    assert shapes(again.infer_arguments()) == ((2,), (2,))


# --- what is written ---------------------------------------------------------------------------------------------
def test_the_file_is_the_text_and_is_for_its_owner_alone(tmp_path):
    file = tmp_path / "observed.json"
    text = observed(Add(), *MIXED).to_json(file)
    assert file.read_text() == text
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [*tmp_path.iterdir()] == [file]
    assert InputObserver.from_json(file).num_obs() == InputObserver.from_json(str(file)).num_obs() == 4


def test_a_file_is_replaced_as_a_whole_or_stays(tmp_path, monkeypatch):
    file = tmp_path / "observed.json"
    before = observed(Add(), *MIXED).to_json(file)

    def full(*_args, **_options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(opening.system, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        observed(Add(), MIXED[0]).to_json(file)
    assert file.read_text() == before
    assert [*tmp_path.iterdir()] == [file]


def test_no_other_file_is_replaced_and_no_link(tmp_path):
    """A file of any kind was replaced, and a link too."""
    file = tmp_path / "observed.json"
    file.write_text('{"resourceSpans":[]}\n')
    with pytest.raises(OSError, match="it is not a file of observed inputs, and torchspan replaces no other file"):
        observed(Add(), MIXED[0]).to_json(file)
    assert file.read_text() == '{"resourceSpans":[]}\n'
    file.rename(tmp_path / "trace.jsonl")
    file.symlink_to("trace.jsonl")
    with pytest.raises(OSError, match="it is a link, which torchspan does not follow"):
        observed(Add(), MIXED[0]).to_json(file)
    assert (sorted(path.name for path in tmp_path.iterdir()), file.is_symlink()) == (
        ["observed.json", "trace.jsonl"],
        True,
    )


def test_an_earlier_document_and_an_empty_file_are_replaced(tmp_path):
    file = tmp_path / "observed.json"
    file.touch()
    for calls in (MIXED, MIXED[:1]):
        text = observed(Add(), *calls).to_json(file)
        assert file.read_text() == text


def test_an_observer_without_calls_writes_what_it_knows_of_the_method():
    observer = InputObserver()
    with pytest.raises(RuntimeError, match="No call was observed"):
        observer.to_json()
    with observer(Add()):
        pass
    assert kinds(reread(observer)) == [("no_call", "")]


def test_what_was_read_observes_no_model():
    with pytest.raises(ValueError, match="Create another InputObserver, and add its calls with merge"):
        reread(observed(Add(), MIXED[0]))(Add())


# --- what is refused ---------------------------------------------------------------------------------------------
def document():
    return json.loads(observed(Optional(), *MIXED).to_json())


def refusal(text):
    with pytest.raises(InputFileError) as refused:
        documents.parsed(text, "FILE")
    return str(refused.value)


def test_a_torn_file_is_refused_wherever_it_ends():
    text = observed(Optional(), *MIXED).to_json().rstrip()
    assert refusal("").startswith("FILE is empty. Write it again with InputObserver.to_json")
    for end in range(97, len(text), 97):
        assert refusal(text[:end]).startswith(
            "FILE is torn, or is not a file of observed inputs: it is not complete JSON."
        )


def test_a_file_of_another_version_is_refused():
    assert refusal(json.dumps({**document(), "torchspan_inputs": 2})) == (
        "FILE has version 2 of the format, but this torchspan reads version 1. Read it with the version of torchspan that wrote "
        "it, or write it again with this one."
    )


@pytest.mark.parametrize("text", ["[]", "{}", "1", "null", '"text"'])
def test_another_file_is_refused(text):
    assert refusal(text).startswith("FILE is not a file of observed inputs: it has no 'torchspan_inputs'.")


@pytest.mark.parametrize("text", ['{"resourceSpans": []}', b'{"resourceSpans": []}\n{"resourceSpans": []}\n'])
def test_a_file_of_traces_is_refused_with_what_shows_it(text):
    assert refusal(text) == (
        "FILE is not a file of observed inputs: it is a file of traces. Show it with torchspan show."
    )


@pytest.mark.parametrize("content", [b"\xff\xfe", b"\x00" * 100, b"[" * 100_000, b'{"a":' * 100_000])
def test_bytes_that_are_not_json_are_refused(content):
    assert refusal(content).startswith("FILE is torn, or is not a file of observed inputs")


def places(found, at=()):
    """Every place in a document."""
    if isinstance(found, (dict, list)):
        for key, value in found.items() if isinstance(found, dict) else enumerate(found):
            yield (*at, key)
            yield from places(value, (*at, key))


@pytest.mark.parametrize("other", [None, -1, True, 1.5, "x\x1b[31m", [], {}, 1 << 70, ["a"] * 3], ids=repr)
def test_a_wrong_value_in_any_place_is_refused_or_harmless(other):
    observer = observed(Variadic(), (ones(2, 3), ones(3)), {"x": ones(2), "named": ones(2)}, {"x": ones(2), "scale": 3})
    for values in (False, True):
        text = observer.to_json(values=values)
        for place in places(json.loads(text)):
            damaged = json.loads(text)
            inner = damaged
            for key in place[:-1]:
                inner = inner[key]
            inner[place[-1]] = other
            try:
                found = documents.parsed(json.dumps(damaged), "FILE")
            except InputFileError as error:
                assert str(error).startswith("FILE ")  # noqa: PT017
            else:
                for each in found.observations:
                    assert InputObserver._of(each).report().replace("\n", "").isprintable()


def test_a_file_that_lacks_something_says_what():
    damaged = document()
    del damaged["observations"][0]["counts"]
    assert refusal(json.dumps(damaged)) == "FILE is damaged: it lacks 'counts'. Write it again."


def test_containers_that_are_too_deep_are_refused():
    damaged, inner = document(), {"dtype": "torch.float32", "shape": [], "device": "cpu"}
    for _ in range(50):
        inner = {"container": "list", "items": [inner]}
    damaged["observations"][0]["shapes"][0]["arguments"]["x"] = inner
    assert refusal(json.dumps(damaged)) == "FILE is damaged: its containers are nested too deeply. Write it again."


def test_a_file_that_is_missing_is_an_error_of_the_system(tmp_path):
    with pytest.raises(FileNotFoundError):
        InputObserver.from_json(tmp_path / "missing.json")


def test_a_file_with_several_methods_wants_a_name():
    one, two = document(), json.loads(observed(Add(), MIXED[0]).to_json())
    text = json.dumps({**one, "observations": one["observations"] + two["observations"]})
    names = ["support.observed_calls.Optional.forward", "support.observed_calls.Add.forward"]
    with pytest.raises(InputFileError, match=f"choose one with name=, one of {', '.join(names)}"):
        InputObserver.from_json(text)
    assert InputObserver.from_json(text, names[1]).num_obs() == 1
    with pytest.raises(InputFileError, match="has no calls of 'Other'; it has calls of"):
        InputObserver.from_json(text, "Other")


def test_a_class_is_looked_up_and_no_module_is_imported_for_a_name():
    damaged = document()
    damaged["observations"][0]["shapes"][0]["arguments"]["x"] = {"container": "this.Zen", "items": []}
    observer = InputObserver.from_json(json.dumps(damaged))
    observer.report()
    import sys

    assert "this" not in sys.modules


def test_a_leaf_is_what_it_was():
    again = reread(observed(Anything(), (ones(2), 7)), values=True)
    snapshot = again._observed.snapshot()
    assert snapshot.shapes[0].first.arguments == {
        "x": TensorShape((2,), torch.float32, torch.device("cpu")),
        "other": Constant(7),
    }


def test_the_environment_decides_about_values_where_the_call_does_not(monkeypatch):
    observer = observed(Anything(), (ones(2), "a text"))
    assert json.loads(observer.to_json())["observations"][0]["values"] is False
    monkeypatch.setitem(os.environ, "TORCHSPAN_CAPTURE", "Text")
    assert json.loads(observer.to_json())["observations"][0]["values"] is True
    assert json.loads(observer.to_json(values=False))["observations"][0]["values"] is False


def test_the_inputs_of_a_dictionary_without_its_keys_cannot_be_made():
    observer = reread(observed(Nested(), ({"key": ones(2)},)))
    with pytest.raises(NotWrittenError, match="The keys of the dictionary items were not written to the file"):
        observer.infer_profile().to_python()
