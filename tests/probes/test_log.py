# SPDX-License-Identifier: Apache-2.0
"""What lines of TensorRT's log say: real ones, as users reported them."""

import pytest

from torchspan.hooks.probes.describe.build import OUT_OF_MEMORY, is_out_of_memory, skipped_tactic, tensorrt_line


class Severity:
    def __init__(self, name, value):
        self.name, self.value = name, value


@pytest.mark.parametrize(
    ("name", "value", "matters"),
    [("INTERNAL_ERROR", 0, True), ("ERROR", 1, True), ("WARNING", 2, True), ("INFO", 3, False), ("VERBOSE", 4, False)],
)
def test_warnings_and_errors_matter_and_nothing_else(name, value, matters):
    line = tensorrt_line(("the logger", Severity(name, value), "text"), {})
    assert line == ((name, "text") if matters else None)


def test_a_line_may_be_given_by_name():
    assert tensorrt_line(("the logger",), {"severity": Severity("ERROR", 1), "msg": "text"}) == ("ERROR", "text")


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        (1,),
        ("ERROR", "text"),
        (Severity("ERROR", "1"), "text"),
        (Severity("ERROR", 1), b"text"),
        (Severity("", 1),),
    ],
)
def test_what_a_program_gives_its_own_logger_is_not_a_line_of_tensorrts(arguments):
    assert tensorrt_line(("the logger", *arguments), {}) is None


@pytest.mark.parametrize(("severity", "is_error"), [("WARNING", False), ("ERROR", True), ("INTERNAL_ERROR", True)])
def test_what_is_an_error(severity, is_error):
    assert tensorrt_line(("the logger", Severity(severity, 0), ""), {}).is_error is is_error


MEMORY = [
    # (line, kind of wording in which it says that a tactic is skipped)
    ("Skipping tactic 8 due to insuficient memory on requested size of 4364 detected for tactic 60.", "skipping"),
    (
        (
            "UNSUPPORTED_STATE: Skipping tactic 33 due to insufficient memory on requested size of 629145600 detected for "
            "tactic 0xa5a46bfbd719d757."
        ),
        "skipping",
    ),
    ("UNSUPPORTED_STATESkipping tactic 4 due to insufficient memory on requested size of 66048 detected", "skipping"),
    ("Tactic Device request: 600MB Available: 302MB. Device memory is insufficient to use tactic.", "request"),
    (
        (
            "Error Code: 9: Skipping tactic 0x0000000000000000 due to exception [tunable_graph.cpp:create:117] autotuning: "
            "User allocator error allocating 15485030400-byte buffer"
        ),
        "skipping",
    ),
    (
        (
            "IBuilder::buildSerializedNetwork: Error Code 10: Internal Error (Could not find any implementation for node "
            "{ForeignNode[/1/Constant_36_output_0.../1/Slice_4]}.)"
        ),
        None,
    ),
    ("Internal error: could not find any implementation for node conv0_fwd, try increasing the workspace size", None),
    (
        (
            "IBuilder::buildSerializedNetwork: Error Code 1: Myelin ([tactic.cpp:1654: enumerate_tactics] Tactic Selection: "
            "no tactics to implement the operation within workspace limit. Consider increase the allowed workspace size"
        ),
        None,
    ),
    ("[virtualMemoryBuffer.cpp::resizePhysical::160] Error Code 2: OutOfMemory (no further information)", None),
    ("[defaultAllocator.cpp::allocate::31] Error Code 1: Cuda Runtime (out of memory)", None),
    ("C:\\source\\rtSafe\\safeRuntime.cpp (25) - Cuda Error in DefaultAllocator::allocate: 2 (out of memory)", None),
    ("Requested amount of GPU memory (15485030400 bytes) could not be allocated. There may not be enough free", None),
    ("Requested amount of memory (150994944 bytes) could not be allocated. There may not be enough free memory", None),
    ("GPU memory allocation error during getBestTactic: 9_full_with_bias", None),
    ("Out of memory error during getBestTactic: conv", None),
]


@pytest.mark.parametrize(("text", "skips"), MEMORY, ids=[text[:60] for text, _ in MEMORY])
def test_lines_that_mean_that_memory_did_not_suffice(text, skips):
    assert is_out_of_memory(text)
    assert skipped_tactic(text) == skips


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Local timing cache in use. Profiling results in this builder pass will not be stored.",
        "Myelin graph with multiple dynamic values may have poor performance if they differ. Dynamic values are:",
        "CUDA lazy loading is not enabled. Enabling it can significantly reduce device memory usage.",
        "Skipping tactic 0x0000000000000000 due to exception Assertion mElementWise failed.",
        "Error Code 4: API Usage Error (Network has dynamic or shape inputs, but no optimization profile)",
        "Total Activation Memory: 8192512 bytes",
    ],
)
def test_lines_that_mean_something_else(text):
    assert not is_out_of_memory(text)
    assert skipped_tactic(text) is None


def test_every_wording_has_a_source_and_a_line_above_that_only_it_explains():
    import re

    assert all(len(each.source) > 5 for each in OUT_OF_MEMORY)
    for wording in OUT_OF_MEMORY:
        others = [each for each in OUT_OF_MEMORY if each is not wording]
        own = [text for text, _ in MEMORY if re.search(wording.pattern, text, re.IGNORECASE)]
        assert [text for text in own if not any(re.search(each.pattern, text, re.IGNORECASE) for each in others)]


def test_a_huge_line_takes_no_time():
    assert not is_out_of_memory("Skipping tactic " * 1_000_000)
    assert is_out_of_memory("x" * 4083 + "out of memory")
    assert not is_out_of_memory("x" * 4084 + "out of memory")
