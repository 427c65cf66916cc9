# SPDX-License-Identifier: Apache-2.0
"""TensorRT under its two names: which packages there are, and that each class is hooked once."""

import sys
import types

import pytest

from support.engines import Callback, extend
from support.ports import make_ports
from torchspan.engine import Engine
from torchspan.hooks.adapters import Provenance, tensorrt
from torchspan.phase import BUILD_ENGINE


def package(name, version, builder):
    module = types.ModuleType(name)
    module.__version__ = version
    module.Builder = builder
    return module


def builder_class(name):
    """A builder of which only the build is there, as of an extension module called `name`."""

    def build_serialized_network(self, network, config):
        return f"engine of {name}"

    return type("Builder", (), {"build_serialized_network": build_serialized_network, "__module__": name})


class Proxy(types.ModuleType):
    """As Torch-TensorRT registers one."""

    def __init__(self, target):
        self._target_module = target

    def __getattr__(self, name):
        raise AssertionError(f"a proxy prints what it is asked for: {name}")


@pytest.fixture
def packages(monkeypatch):
    """Makes these packages the ones that are loaded."""

    def load(**modules):
        for name in tensorrt.PACKAGES:
            monkeypatch.delitem(sys.modules, name, raising=False)
        for name, module in modules.items():
            monkeypatch.setitem(sys.modules, name, module)

    return load


@pytest.fixture
def engine():
    """An engine and the (package, version) of each build that it sees."""
    engine = Engine()
    engine.seen = []

    def start(event):
        engine.seen.append((event.attributes["tensorrt.package"], event.attributes["tensorrt.version"]))

    extend(engine, Callback("listening", start, lambda event, context: None, frozenset({BUILD_ENGINE})))
    return engine


def install_all(engine, hooked):
    return [
        tensorrt.install(engine, Provenance(), make_ports(), package, hooked=hooked) for package in tensorrt.loaded()
    ]


def test_both_packages_in_one_process_are_hooked_each_with_its_own_version(packages, engine):
    first, second = builder_class("tensorrt"), builder_class("tensorrt_rtx")
    packages(tensorrt=package("tensorrt", "11.1", first), tensorrt_rtx=package("tensorrt_rtx", "1.6", second))
    originals = [vars(each)["build_serialized_network"] for each in (first, second)]

    undo = install_all(engine, set())
    assert first().build_serialized_network(None, None) == "engine of tensorrt"
    assert second().build_serialized_network(None, None) == "engine of tensorrt_rtx"
    assert engine.seen == [("tensorrt", "11.1"), ("tensorrt_rtx", "1.6")]

    for each in reversed(undo):
        each()
    assert [vars(each)["build_serialized_network"] for each in (first, second)] == originals


def test_a_class_that_two_packages_share_is_hooked_once(packages, engine):
    shared = builder_class("tensorrt_rtx")
    packages(tensorrt=package("tensorrt", "11.1", shared), tensorrt_rtx=package("tensorrt_rtx", "1.6", shared))
    hooked = set()
    install_all(engine, hooked)
    install_all(engine, hooked)  # another library has arrived
    shared().build_serialized_network(None, None)
    assert engine.seen == [("tensorrt", "11.1")]


def test_behind_torch_tensorrts_proxy_is_the_package_it_stands_for(packages):
    rtx = package("tensorrt_rtx", "1.6", builder_class("tensorrt_rtx"))
    packages(tensorrt=Proxy(rtx), tensorrt_rtx=rtx)
    assert tensorrt.loaded() == {"tensorrt_rtx": rtx}


def test_what_comes_later_is_hooked_later(packages, engine):
    builder, hooked = builder_class("tensorrt_rtx"), set()
    packages(tensorrt_rtx=package("tensorrt_rtx", "1.6", builder))
    install_all(engine, hooked)
    builder.build_engine_with_config = lambda self, network, config: "engine"
    install_all(engine, hooked)
    assert builder().build_engine_with_config(None, None) == "engine"
    assert engine.seen == [("tensorrt_rtx", "1.6")]


def test_without_any_package_every_row_is_absent(packages):
    packages()
    assert {each.status for each in tensorrt.resolve_probes()} == {"library not installed"}
    assert len(tensorrt.resolve_probes()) == len({each.probe.target for each in tensorrt.resolve_probes()})


def test_an_import_that_is_forbidden_is_not_a_package(packages, monkeypatch):
    packages()
    monkeypatch.setitem(sys.modules, "tensorrt", None)
    assert tensorrt.loaded() == {}
