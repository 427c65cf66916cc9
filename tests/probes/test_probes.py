# SPDX-License-Identifier: Apache-2.0
import pytest

from torchspan.probes import PROBES, SUPPORTED, Action, Probe, parse_version


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


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.target)
def test_each_row_gives_its_reason_and_what_it_is_for(probe):
    assert len(probe.why) > 15
    assert probe.action in {Action.STEP, Action.WATCH, Action.MAKES, Action.LINES} or probe.phases
    assert probe.action is not Action.MAKES or probe.produces is not None
    assert probe.action is not Action.TALLY or probe.count is not None
    assert probe.action in {Action.TALLY, Action.STEP} or probe.count is probe.before is None
    assert probe.failed is None or probe.action is Action.EVENT
    assert (probe.action is Action.LINES) == (probe.line is not None)
    assert bool(probe.share) == (probe.share_with != ())


def test_no_row_patches_the_initialiser_that_the_debugger_swaps():
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
    probe = Probe(library="torch_tensorrt", target="a:b", why="a reason", **row)
    assert probe.holds_for(version, package) is expected


def test_the_supported_range_is_the_documented_one():
    assert SUPPORTED == ((2, 11), (2, 14))
