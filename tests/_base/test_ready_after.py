# SPDX-License-Identifier: Apache-2.0
"""A program that serves once one of its functions has returned."""

import asyncio
import importlib
import inspect
import sys

import pytest

from torchspan.base.readiness import is_ready, mark_not_ready, mark_ready_after

APP = '''
import asyncio


def warm_up(answer=42):
    """Loads the model."""
    return answer


def fails():
    raise OSError("no model")


async def warm_up_later():
    await asyncio.sleep(0)
    return 42


def steps():
    yield 1


class Server:
    def load(self):
        return self

    @staticmethod
    def prepare():
        return 42


number = 7
'''


@pytest.fixture
def app(tmp_path, monkeypatch):
    """The name of a module that has not been imported."""
    (tmp_path / "an_app.py").write_text(APP)
    (tmp_path / "a_user.py").write_text("from an_app import warm_up\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "an_app"
    mark_not_ready()
    for name in ("an_app", "a_user"):
        sys.modules.pop(name, None)


@pytest.fixture
def after(app):
    undo = []
    yield lambda path: undo.append(mark_ready_after(f"{app}:{path}"))
    for each in undo:
        each()


def imported(app):
    return importlib.import_module(app)


def test_the_program_is_ready_once_the_function_has_returned(app, after):
    after("warm_up")
    module = imported(app)
    assert not is_ready()
    assert module.warm_up(answer=7) == 7
    assert is_ready()


def test_a_function_that_others_took_before_is_hooked_where_they_hold_it(app, after):
    user = imported("a_user")
    after("warm_up")
    assert user.warm_up() == 42
    assert is_ready()


def test_a_function_that_raises_does_not_make_the_program_ready(app, after):
    after("fails")
    with pytest.raises(OSError, match="no model"):
        imported(app).fails()
    assert not is_ready()


def test_a_coroutine_function_makes_it_ready_once_it_was_awaited(app, after):
    after("warm_up_later")
    coroutine = imported(app).warm_up_later()
    assert not is_ready()
    assert asyncio.run(coroutine) == 42
    assert is_ready()


@pytest.mark.parametrize("call", [lambda module: module.Server().load(), lambda module: module.Server.prepare()])
def test_a_method_makes_it_ready(app, after, call):
    for path in ("Server.load", "Server.prepare"):
        after(path)
    assert call(imported(app)) is not None
    assert is_ready()


def test_the_function_keeps_its_name_signature_and_docstring(app, after):
    after("warm_up")
    hooked = imported(app).warm_up
    assert (hooked.__name__, hooked.__doc__) == ("warm_up", "Loads the model.")
    assert str(inspect.signature(hooked)) == "(answer=42)"


@pytest.mark.parametrize("path", ["missing", "number", "Server.missing", "number.real", "Missing.load"])
def test_a_function_that_is_missing_is_one_warning_and_no_failure(app, after, caplog, path):
    after(path)
    imported(app)
    (record,) = caplog.records
    assert record.getMessage() == (
        f"TORCHSPAN_READY_AFTER names {app}:{path}, but the module has no such function; no compilation is marked "
        "`while_serving` for it. Name another function, or call torchspan.mark_ready() in the program."
    )


def test_a_generator_function_is_refused_because_it_returns_too_early(app, after, caplog):
    after("steps")
    assert list(imported(app).steps()) == [1]
    assert not is_ready()
    assert "it is a generator function, which returns before it has done anything" in caplog.text


def test_after_the_undo_the_original_is_back(app):
    undo = mark_ready_after(f"{app}:warm_up")
    module = imported(app)
    hooked = module.warm_up
    undo()
    assert module.warm_up is hooked.__wrapped__
    assert module.warm_up() == 42
    assert not is_ready()


def test_after_the_undo_an_import_hooks_nothing(app):
    mark_ready_after(f"{app}:warm_up")()
    imported(app).warm_up()
    assert not is_ready()
