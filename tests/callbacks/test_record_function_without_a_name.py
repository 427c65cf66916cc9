# SPDX-License-Identifier: Apache-2.0
"""`@record_function` without parentheses, and with options but no name: the range has the function's qualified name."""

import asyncio
import inspect

import pytest

from torchspan.callbacks import RecordFunctionCallback, RecordScope, add_global_callback, record_function


@record_function
def load(path):
    """What it does."""
    return path


@record_function(scope=RecordScope.FUNCTION)
def scoped(path):
    return path


class Model:
    @record_function
    def forward(self, x):
        return x

    @record_function
    @staticmethod
    def static(x):
        return x

    @record_function
    @classmethod
    def of_class(cls, x):
        return x


@record_function
async def fetch(key):
    return key


@record_function
def pairs():
    yield 1
    yield 2


@pytest.fixture
def names(seen):
    with add_global_callback(RecordFunctionCallback(lambda record: seen.append((record.name, record.scope.name)))):
        yield seen


def test_the_function_runs_and_its_range_has_its_name(names):
    assert load("model.pt") == "model.pt"
    assert names == [("load", "USER_SCOPE")]


def test_options_without_a_name_hold(names):
    assert scoped("model.pt") == "model.pt"
    assert names == [("scoped", "FUNCTION")]


def test_methods_have_the_name_of_their_class(names):
    assert (Model().forward(1), Model.static(2), Model.of_class(3)) == (1, 2, 3)
    assert [name for name, _ in names] == ["Model.forward", "Model.static", "Model.of_class"]


def test_coroutine_functions_and_generators_stay_what_they_are(names):
    assert inspect.iscoroutinefunction(fetch)
    assert inspect.isgeneratorfunction(pairs)
    assert (asyncio.run(fetch(1)), list(pairs())) == (1, [1, 2])
    assert [name for name, _ in names] == ["fetch", "pairs"]


def test_the_decorated_function_looks_like_the_function():
    assert (load.__name__, load.__doc__, str(inspect.signature(load))) == ("load", "What it does.", "(path)")


def test_a_lambda_and_an_object_that_can_be_called_have_a_name_too(names):
    class Callable:
        def __call__(self):
            return 1

    assert (record_function(lambda: 2)(), record_function(Callable())()) == (2, 1)
    assert [name.rpartition(".")[2] for name, _ in names] == ["<lambda>", "Callable"]


def test_a_with_statement_needs_a_name():
    with pytest.raises((TypeError, AttributeError), match=r"context manager|__enter__"), record_function():
        pass


def test_a_class_is_refused():
    with pytest.raises(
        TypeError, match=r"record_function takes functions, not a class: decorate the methods of .*Plain"
    ):

        @record_function
        class Plain:
            pass
