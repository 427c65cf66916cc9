# SPDX-License-Identifier: Apache-2.0
"""Which loggers of a program are followed, and for how long."""

from types import SimpleNamespace

import pytest

from torchspan.base.patching import Patches
from torchspan.engine import Engine
from torchspan.hooks.adapters import log_lines
from torchspan.hooks.adapters.log_lines import LoggerFollower
from torchspan.hooks.adapters.machinery.provenance import Provenance
from torchspan.hooks.adapters.machinery.wrap import WrapperFactory


class InC:
    """A logger whose method is not a Python function."""

    log = print


def logger_class(*bases):
    class Own(*bases):
        def log(self, severity, msg):
            """What a program does with a line."""

    return Own


def building(logger):
    return SimpleNamespace(logger=logger)


@pytest.fixture
def patches():
    return Patches("tensorrt")


@pytest.fixture
def follower(patches):
    return LoggerFollower(WrapperFactory(Engine(), Provenance()), str, patches)


def test_the_class_that_defines_the_method_is_followed_once(follower, patches):
    base = logger_class()
    original = base.log
    child = type("Child", (base,), {})
    for _ in range(2):
        follower.follow(building(child()))
        follower.follow(building(base()))
    assert base.log.__wrapped__ is original
    assert "log" not in vars(child)
    patches.undo()
    assert base.log is original


@pytest.mark.parametrize("logger", [InC(), None, object(), "a logger"])
def test_a_logger_without_a_method_in_python_is_left_alone(follower, patches, logger):
    follower.follow(building(logger))
    follower.follow(SimpleNamespace())
    assert InC.log is print


def test_the_logger_of_torch_tensorrt_is_a_row_of_its_own(follower):
    own = logger_class()
    own.__module__ = "torch_tensorrt.logging"
    original = own.log
    follower.follow(building(own()))
    assert own.log is original


def test_a_program_that_defines_a_class_for_each_build_does_not_fill_memory(follower):
    classes = [logger_class() for _ in range(log_lines.CLASSES_LIMIT + 5)]
    for each in classes:
        follower.follow(building(each()))
    assert sum(hasattr(each.log, "__wrapped__") for each in classes) == log_lines.CLASSES_LIMIT
