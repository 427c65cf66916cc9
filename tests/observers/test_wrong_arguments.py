# SPDX-License-Identifier: Apache-2.0
"""What is refused, when it is given and not in the observed call: each error says what is expected."""

import json
import logging

import pytest

from torchspan import observers
from torchspan.observers import ErrorPolicy, Observer, make_observable, observable, observe_function


def message_of(call, error=TypeError):
    with pytest.raises(error) as raised:
        call()
    return str(raised.value)


def function():
    return "result"


RETHROW = "policy must be an ErrorPolicy, not 'rethrow' (did you mean ErrorPolicy(rethrow=True)?)"


@pytest.mark.parametrize(
    "give",
    [
        lambda policy: Observer("o", policy=policy),
        lambda policy: Observer("o").add(print, policy=policy),
        lambda policy: observable(policy=policy),
        lambda policy: make_observable(function, policy),
        lambda policy: observe_function("json:dumps", policy=policy),
        lambda policy: observers.tensorrt.build_engine.pre.add(print, policy=policy),
    ],
    ids=["Observer", "add", "observable", "make_observable", "observe_function", "an official one"],
)
def test_a_policy_that_is_none_is_refused_when_it_is_given(give):
    assert message_of(lambda: give("rethrow")) == RETHROW
    assert message_of(lambda: give(ErrorPolicy)).startswith("policy must be an ErrorPolicy, not <class ")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"level": "loud"}, "level must be an int, such as logging.INFO, not 'loud'"),
        (
            {"level": "warning"},
            "level must be an int, such as logging.INFO, not 'warning' (did you mean logging.WARNING?)",
        ),
        ({"level": None}, "level must be an int, such as logging.INFO, not None"),
        ({"level": True}, "level must be an int, such as logging.INFO, not True"),
        ({"rethrow": "yes"}, "rethrow must be True or False, not 'yes'"),
        ({"disable_after": "3"}, "disable_after must be an int or None, not '3'"),
        ({"disable_after": 1.5}, "disable_after must be an int or None, not 1.5"),
    ],
)
def test_a_wrong_value_of_a_policy_is_refused(settings, message):
    assert message_of(lambda: ErrorPolicy(**settings)) == message


def test_any_number_is_a_level():
    assert ErrorPolicy(level=logging.ERROR + 5).level == 45


@pytest.mark.parametrize("name", ["add", "observe"])
def test_a_callback_is_added_to_pre_or_to_post_and_not_to_the_pair(name):
    expected = f"a pair of observers has no {name!r}, only pre and post: write .pre.{name} or .post.{name}"
    assert message_of(lambda: getattr(observers.tensorrt.build_engine, name), AttributeError) == expected


def test_a_name_that_no_observer_has_either_gets_no_advice():
    message = message_of(lambda: observers.torch.export.before, AttributeError)
    assert message == "a pair of observers has no 'before', only pre and post"


def test_a_function_in_place_of_its_name_is_refused_with_what_to_write():
    message = message_of(lambda: observe_function(json.dumps))
    assert message.startswith("target must be a str, 'module:name' or 'module:Class.method', not <function dumps at")
    assert message.endswith(": write observe_function('json:dumps')")


@pytest.mark.parametrize("target", [3, None], ids=repr)
def test_a_target_that_is_not_text_is_refused(target):
    expected = f"target must be a str, 'module:name' or 'module:Class.method', not {target!r}"
    assert message_of(lambda: observe_function(target)) == expected


def test_a_scope_that_is_nearly_one_is_refused_with_what_was_meant():
    expected = "scope must be 'context' (the execution context of the callback) or 'process', not 'proces'"
    assert message_of(lambda: Observer(scope="proces"), ValueError) == f"{expected} (did you mean 'process'?)"


def test_a_decorator_works_without_parentheses_too(seen):
    @observable
    def observed():
        return "result"

    with observed.observers.post.add(lambda call: seen.append(call.return_value)):
        assert observed() == "result"
    assert seen == ["result"]
