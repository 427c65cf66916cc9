# SPDX-License-Identifier: Apache-2.0
import pytest

from torchspan.hooks.probes import (
    PROBES,
    SUPPORTED,
    Annotate,
    CustomOperator,
    Function,
    InnerName,
    Lock,
    Method,
    Probe,
    Step,
    parse_version,
    phases_of,
)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("2.14.0", (2, 14)),
        ("2.11.0a0+1a2b3c.nv26.01", (2, 11)),
        ("2.15.0.dev20261101+cu132", (2, 15)),
        ("unknown", None),
        ("", None),
    ],
)
def test_versions_of_releases_vendor_builds_and_nightlies_are_read(text, number):
    assert parse_version(text) == number


def test_no_target_stands_twice_with_the_same_action():
    assert len({probe.target for probe in PROBES}) == len(PROBES)


def test_each_probe_gives_its_reason():
    assert [probe.target for probe in PROBES if len(probe.why) <= 15] == []


def test_each_probe_that_annotates_describes_something():
    annotations = [
        (probe.target, each)
        for probe in PROBES
        for each in (probe.action, getattr(probe.action, "annotate", None))
        if isinstance(each, Annotate)
    ]
    assert [target for target, each in annotations if each.start is each.end is None or not each.phases] == []
    assert len(annotations) > 5


def test_each_target_is_of_the_kind_that_its_text_says():
    def kind(target):
        *outer, _ = target.path
        if target.module == "torch.ops":
            return {CustomOperator}
        if not outer:
            return {Function, Lock}
        return {Method} if outer[0].lstrip("_")[0].isupper() else {InnerName}

    assert [probe.target for probe in PROBES if type(probe.target) not in kind(probe.target)] == []


def test_a_target_is_its_text_and_knows_its_module_and_path():
    target = Method("torch_tensorrt._Input:Input.equivalent_spec")
    assert target == "torch_tensorrt._Input:Input.equivalent_spec"
    assert (target.module, target.path) == ("torch_tensorrt._Input", ("Input", "equivalent_spec"))


def test_the_phases_of_an_action_are_those_it_opens_or_adds_to():
    by_target = {probe.target: [each.name for each in phases_of(probe.action)] for probe in PROBES}
    assert by_target["torch_tensorrt._compile:compile"] == ["torch_tensorrt.compile"]
    assert by_target["torch.ops:tensorrt.execute_engine"] == ["torch_tensorrt.execute"]
    assert by_target["torch_tensorrt.dynamo._engine_cache:pickle.loads"] == ["torch_tensorrt.engine_cache.lookup"]
    assert by_target["torch_tensorrt.logging:_TRTLogger.log"] == []


def test_no_row_patches_the_initializer_that_the_debugger_swaps():
    assert not [probe for probe in PROBES if "TRTInterpreter.__init__" in probe.target]


@pytest.mark.parametrize(
    ("row", "version", "package", "expected"),
    [
        ({}, "2.14.0", "tensorrt_rtx", True),
        ({"since": (2, 14)}, "2.13.0", "tensorrt_rtx", False),
        ({"until": (2, 12)}, "2.12.1", "tensorrt_rtx", True),
        ({"until": (2, 12)}, "2.13.0", "tensorrt_rtx", False),
        ({"package": "tensorrt"}, "2.14.0", "tensorrt_rtx", False),
        ({"since": (2, 14)}, "a build of my own", None, True),
    ],
)
def test_a_row_knows_where_it_is_to_be_expected(row, version, package, expected):
    probe = Probe(library="torch_tensorrt", target=Function("a:b"), action=Step(), why="a reason", **row)
    assert probe.holds_for(version, package) is expected


def test_the_supported_range_is_the_documented_one():
    assert SUPPORTED == ((2, 11), (2, 14))
