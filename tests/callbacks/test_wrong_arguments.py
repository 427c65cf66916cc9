# SPDX-License-Identifier: Apache-2.0
"""What is refused, when it is given and not at the first event: each error says what is expected."""

import pytest

from torchspan import callbacks, phase
from torchspan.callbacks import (
    RecordFunctionCallback,
    RecordScope,
    SamplingMode,
    add_global_callback,
    add_thread_local_callback,
    record_function,
)
from torchspan.observers import Observer


def message_of(call, error=TypeError):
    with pytest.raises(error) as raised:
        call()
    return str(raised.value)


def load(path):
    return path


# --- record_function ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", [3, None, b"load"], ids=repr)
def test_a_name_that_is_not_text_is_refused(name):
    assert message_of(lambda: record_function(name)) == f"record_function() takes a name, a str, not {name!r}"


def test_a_name_of_a_class_of_strings_is_taken():
    class Name(str):
        __slots__ = ()

    assert record_function(Name("load"))(load)("model.pt") == "model.pt"


@pytest.mark.parametrize("function", ["not callable", None, 3], ids=repr)
def test_what_cannot_be_called_cannot_be_decorated(function):
    expected = f"record_function('load') takes a function to decorate: {function!r} cannot be called"
    assert message_of(lambda: record_function("load")(function)) == expected


@pytest.mark.parametrize(
    ("scope", "hint"),
    [
        ("x", ""),
        (7, ""),
        (None, ""),
        ("USER_SCOPE", " (did you mean RecordScope.USER_SCOPE?)"),
        ("backward", " (did you mean RecordScope.BACKWARD_FUNCTION?)"),
        (phase.COMPILE, " (phases are fired by torchspan itself)"),
    ],
    ids=["a letter", "number", "None", "exact", "near", "phase"],
)
def test_a_scope_that_is_none_of_the_header_is_refused(scope, hint):
    assert (
        message_of(lambda: record_function("load", scope=scope)) == f"scope must be a RecordScope, not {scope!r}{hint}"
    )


# --- RecordFunctionCallback -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RecordFunctionCallback(3), "start must be callable, not 3"),
        (lambda: RecordFunctionCallback(None), "start must be callable, not None"),
        (lambda: RecordFunctionCallback(print, "x"), "end must be callable or None, not 'x'"),
        (lambda: RecordFunctionCallback(print, should_run=3), "should_run must be callable or None, not 3"),
        (lambda: RecordFunctionCallback(print, needs_inputs="yes"), "needs_inputs must be True or False, not 'yes'"),
        (lambda: RecordFunctionCallback(print, needs_outputs=1), "needs_outputs must be True or False, not 1"),
        (lambda: RecordFunctionCallback(print, needs_ids=None), "needs_ids must be True or False, not None"),
        (
            lambda: RecordFunctionCallback(print, sampling_prob="x"),
            "sampling_prob must be a number from 0 to 1, not 'x'",
        ),
        (
            lambda: RecordFunctionCallback(print, sampling_prob=True),
            "sampling_prob must be a number from 0 to 1, not True",
        ),
        (
            lambda: RecordFunctionCallback(print, scopes="build_engine"),
            (
                "scopes must be a collection of RecordScope and Phase, not 'build_engine' "
                "(did you mean scopes={phase.BUILD_ENGINE}?)"
            ),
        ),
        (
            lambda: RecordFunctionCallback(print, scopes="user_scop"),
            (
                "scopes must be a collection of RecordScope and Phase, not 'user_scop' "
                "(did you mean scopes={RecordScope.USER_SCOPE}?)"
            ),
        ),
        (
            lambda: RecordFunctionCallback(print, scopes=None),
            "scopes must be a collection of RecordScope and Phase, not None",
        ),
        (
            lambda: RecordFunctionCallback(print, scopes=phase.BUILD_ENGINE),
            "scopes must be a collection of RecordScope and Phase: write scopes={phase.BUILD_ENGINE}",
        ),
        (
            lambda: RecordFunctionCallback(print, scopes=RecordScope.FUNCTION),
            "scopes must be a collection of RecordScope and Phase: write scopes={RecordScope.FUNCTION}",
        ),
        (
            lambda: RecordFunctionCallback(print, scopes=["torch_tensorrt.compile"]),
            (
                "scopes contains 'torch_tensorrt.compile', which is neither a RecordScope nor a phase "
                "(did you mean phase.COMPILE?)"
            ),
        ),
        (
            lambda: RecordFunctionCallback(print, sampling_mode="x"),
            "sampling_mode must be a SamplingMode (SamplingMode.PER_EVENT, SamplingMode.PER_ROOT), not 'x'",
        ),
    ],
)
def test_a_wrong_argument_of_a_callback_is_named_with_its_value(make, message):
    assert message_of(make) == message


@pytest.mark.parametrize("scopes", [[phase.COMPILE], {RecordScope.FUNCTION}, (), frozenset({phase.COMPILE})], ids=repr)
def test_any_collection_of_scopes_is_taken(scopes):
    assert RecordFunctionCallback(print, scopes=scopes).scopes == frozenset(scopes)


@pytest.mark.parametrize("mode", SamplingMode)
def test_numbers_of_other_kinds_are_probabilities(mode):
    import fractions

    callback = RecordFunctionCallback(print, sampling_prob=fractions.Fraction(1, 2), sampling_mode=mode)
    callbacks.remove_callback(add_global_callback(callback))


# --- registration ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("add", [add_global_callback, add_thread_local_callback])
@pytest.mark.parametrize(
    ("callback", "hint"),
    [(print, ": write RecordFunctionCallback(print)"), (3, ""), (None, ""), ({"start": print}, "")],
    ids=["function", "number", "None", "dict"],
)
def test_what_is_not_a_callback_is_refused_and_nothing_is_registered(add, callback, hint):
    assert message_of(lambda: add(callback)) == f"callback must be a RecordFunctionCallback, not {callback!r}{hint}"
    assert not callbacks.has_callbacks()


# --- handles, states and numbers ------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "take",
    [callbacks.remove_callback, callbacks.disable_callback, callbacks.reenable_callback],
    ids=lambda f: f.__name__,
)
@pytest.mark.parametrize("handle", ["1", None, True, 1.5], ids=repr)
def test_a_handle_that_is_not_an_integer_is_refused(take, handle):
    expected = f"handle must be a CallbackHandle, which registering a callback returned, not {handle!r}"
    assert message_of(lambda: take(handle)) == expected


def test_a_registration_of_an_observer_in_place_of_a_handle_is_refused_with_what_to_write():
    registration = Observer("o").add(print)
    assert message_of(lambda: callbacks.remove_callback(registration)).endswith("; call its remove()")
    registration.remove()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: callbacks.enable_record_function("no"), "enable must be True or False, not 'no'"),
        (lambda: callbacks.RecordFunctionGuard(0), "is_enabled must be True or False, not 0"),
        (
            lambda: callbacks.set_record_function_tls(()),
            "tls must be a RecordFunctionTLS, which get_record_function_tls() returns, not ()",
        ),
        (lambda: callbacks.set_record_function_seed_for_testing("x"), "seed must be an int, not 'x'"),
        (lambda: callbacks.set_default_node_id("x"), "node_id must be an int, not 'x'"),
        (lambda: callbacks.ThreadLocalState().run("x"), "function must be callable, not 'x'"),
        (lambda: callbacks.RecordFunction("USER_SCOPE"), "scope must be a RecordScope, not 'USER_SCOPE' (did you mean RecordScope.USER_SCOPE?)"),
        (lambda: callbacks.RecordFunction().before(3), "name must be a str, not 3"),
        (lambda: record_function("load", inputs="x"), "inputs must be a tuple, not 'x': write inputs=('x',)"),
        (lambda: record_function("load", sequence_nr="x"), "sequence_nr must be an int, not 'x'"),
        (lambda: record_function("load", forward_thread_id=1.5), "forward_thread_id must be an int, not 1.5"),
        (lambda: record_function("load", debug_handle=True), "debug_handle must be an int, not True"),
        (lambda: record_function("load", operator_name=3), "operator_name must be a str or None, not 3"),
        (lambda: record_function(str), "record_function takes functions, not a class: decorate the methods of str"),
    ],
)  # fmt: skip
def test_a_wrong_argument_is_named_with_its_value(call, message):
    assert message_of(call) == message


def test_a_negative_node_id_is_refused_as_in_pytorch():
    expected = "node_id must be 0 or more, not -1"
    assert message_of(lambda: callbacks.set_default_node_id(-1), ValueError) == expected
