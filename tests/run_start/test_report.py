# SPDX-License-Identifier: Apache-2.0

import os

import pytest

from torchspan._run.report import RunReport, likely_reason, read_reports

PYTHON = "/venv/bin/python"


def reason(*reports, environ=None, started=PYTHON):
    return likely_reason(reports, environ or {}, started, PYTHON)


def report(**values):
    return RunReport("folder", **values)


def test_a_report_is_read_as_it_was_written(tmp_path):
    written = RunReport(str(tmp_path))
    written.libraries["torch_tensorrt"] = "2.14.0"
    written.rows, written.resolved, written.spans, written.unsampled = 55, 51, 3, 4
    written.provider, written.sdk_disabled, written.errors = "separate", True, ["one", "two"]
    written.runs, written.runs_s, written.undelivered = 1000, 1.25, {"otlp": 7}
    written.write()
    written.spans = 5
    written.write()

    assert read_reports(str(tmp_path)) == [written]
    assert written.pid == os.getpid()
    assert [file.name for file in tmp_path.iterdir()] == [f"{os.getpid()}.json"]


def test_a_report_that_cannot_be_written_is_no_failure(tmp_path):
    RunReport(str(tmp_path / "gone")).write()
    unwritable = RunReport(str(tmp_path))
    unwritable.libraries = {"x": object()}
    unwritable.write()

    assert read_reports(str(tmp_path)) == []


def test_files_that_are_no_reports_are_left_out(tmp_path):
    for number, text in enumerate(["", "{", "[]", "{}", '{"pid": "x"}', '{"pid": 1, "libraries": 3}']):
        (tmp_path / f"{number}.json").write_text(text)
    (tmp_path / "9.json.new").write_text("half")

    assert read_reports(str(tmp_path)) == []


@pytest.mark.parametrize(
    ("environ", "started", "expected"),
    [
        ({"OTEL_SDK_DISABLED": "True"}, PYTHON, "OTEL_SDK_DISABLED=true switches OpenTelemetry off"),
        (
            {"OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "requests, torchspan"},
            PYTHON,
            "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS switches torchspan off",
        ),
        (
            {},
            "/usr/bin/python3",
            "another Python interpreter was started: /usr/bin/python3, while torchspan is installed in /venv/bin/python",
        ),
        (
            {},
            "/bin/true",
            (
                "no Python process with torchspan in it was started "
                "(another Python interpreter, or python with -S, -I or -E, or no Python at all)"
            ),
        ),
    ],
)
def test_without_any_report_the_way_it_was_started_is_the_reason(environ, started, expected):
    assert reason(environ=environ, started=started) == expected


def test_a_library_that_no_process_imported_is_the_reason():
    assert reason(report(), report(libraries={"torch": "2.14"})) == (
        "none of torch_tensorrt, tensorrt and tensorrt_rtx was ever imported"
    )


LOADED = {"torch_tensorrt": "9.0"}


def test_hook_points_that_do_not_resolve_are_the_reason():
    assert reason(report(libraries=LOADED, rows=55)) == (
        "none of the 55 hook points resolved in this installation; see: torchspan probes"
    )


def test_a_sampler_that_drops_everything_is_the_reason():
    assert reason(report(libraries=LOADED, rows=55, resolved=51, unsampled=4)) == (
        "the sampler dropped all 4 (OTEL_TRACES_SAMPLER=parentbased_always_on)"
    )
    assert reason(report(unsampled=4), environ={"OTEL_TRACES_SAMPLER": "always_off"}) == (
        "the sampler dropped all 4 (OTEL_TRACES_SAMPLER=always_off)"
    )


def test_spans_that_did_not_reach_the_file_are_the_reason():
    assert reason(report(spans=2), report(spans=3)) == (
        "5 spans were recorded, but none reached the file: it ended without shutting OpenTelemetry down "
        "(os._exit or a signal), or the file could not be written"
    )
    assert reason(report(spans=5), environ={"OTEL_CONFIG_FILE": "otel.yaml"}) == (
        "OTEL_CONFIG_FILE is set, which takes the place of OTEL_TRACES_EXPORTER, so 5 spans went elsewhere"
    )


def test_a_library_that_was_not_used_is_the_reason():
    assert reason(report(libraries=LOADED, rows=55, resolved=51)) == (
        "torch_tensorrt was imported, but nothing was compiled or run with it"
    )


def test_a_program_that_uses_tensorrt_alone_is_told_so():
    libraries = {"torch": "2.14.1", "tensorrt_rtx": "1.6.1.120"}
    assert reason(report(libraries=libraries, rows=9, resolved=9)) == (
        "tensorrt_rtx was imported, but nothing was parsed, built or run with it"
    )
