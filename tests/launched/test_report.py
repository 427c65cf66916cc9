# SPDX-License-Identifier: Apache-2.0

import os
from pathlib import Path

import pytest

from torchspan.base.files.folders import Folder
from torchspan.start.launched.run_report import RunReport, likely_reason, missing, problems, read_reports

PYTHON = "/venv/bin/python"
LOADED = {"torch_tensorrt": "9.0"}


def reason(*reports, environ=None, started=PYTHON):
    return likely_reason(reports, environ or {}, started, PYTHON)


def report(**values):
    return RunReport(**values)


def test_a_report_is_read_as_it_was_written(tmp_path):
    folder = Folder(str(tmp_path))
    written = RunReport(folder=folder)
    written.libraries["torch_tensorrt"] = "2.14.0"
    written.rows, written.resolved, written.spans, written.unsampled = 55, 51, 3, 4
    written.provider, written.sdk_disabled, written.errors = "foreign", True, ["one", "two"]
    written.runs, written.runs_s, written.undelivered = 1000, 1.25, {"otlp": 7}
    written.left_out, written.ended, written.has_unsampled, written.is_final = 2, 6, True, True
    written.write()
    written.spans = 5
    written.write()

    assert read_reports(folder) == [written]
    assert written.pid == os.getpid()
    assert [file.name for file in tmp_path.iterdir()] == [f"{os.getpid()}.json"]


def test_a_report_that_cannot_be_written_is_not_a_failure(tmp_path):
    (tmp_path / "gone").mkdir()
    gone, folder = Folder(str(tmp_path / "gone")), Folder(str(tmp_path))
    (tmp_path / "gone").rmdir()
    RunReport(folder=gone).write()
    RunReport().write()
    unwritable = RunReport(folder=folder)
    unwritable.libraries = {"x": object()}
    unwritable.write()

    assert read_reports(gone) == read_reports(folder) == []


def test_a_process_that_can_open_nothing_later_still_reports(tmp_path, monkeypatch):
    folder = Folder(str(tmp_path))
    written = RunReport(folder=folder)
    written.write()
    with monkeypatch.context() as patch:
        patch.setattr(Folder, "open", refused)
        for written.errors in (["an error that is longer than the next"], ["another"]):
            written.write()
    assert read_reports(folder) == [written]


def test_a_fork_has_a_file_of_its_own(tmp_path):
    written = RunReport(folder=Folder(str(tmp_path)))
    written.write()
    in_child(written._write_in_child)
    assert len(list(tmp_path.iterdir())) == 2
    assert len(read_reports(Folder(str(tmp_path)))) == 2


def in_child(function):
    pid = os.fork()
    if pid == 0:
        function()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0


def refused(*_arguments):
    raise OSError(24, "Too many open files")


def is_file_of_reports(link, folder):
    return os.path.realpath(link) == str(folder / f"{os.getpid()}.json")


def test_a_file_of_the_program_that_got_the_number_of_the_report_is_left_alone(tmp_path):
    written = RunReport(folder=Folder(str(tmp_path)))
    written.write()
    (number,) = [int(link.name) for link in Path("/proc/self/fd").iterdir() if is_file_of_reports(link, tmp_path)]
    with open(tmp_path / "of the program", "w") as file:
        os.dup2(file.fileno(), number)
    written.ended = 5
    written.write()
    assert (tmp_path / "of the program").read_text() == ""
    assert [report.ended for report in read_reports(Folder(str(tmp_path)))] == [5]
    os.close(number)


def test_files_that_are_not_reports_are_left_out(tmp_path):
    huge = f'{{"pid": 1e999, "libraries": {"9" * 5000}}}'
    for number, text in enumerate(["", "{", "[]", "{}", '{"pid": "x"}', '{"pid": 1, "libraries": 3}', huge]):
        (tmp_path / f"{number}.json").write_text(f"{'0' * 32}\n{text}")
    (tmp_path / "9.json.new").write_text("half")

    assert read_reports(Folder(str(tmp_path))) == []


NONE_STARTED = (
    "no Python process that loads torchspan was started "
    "(another Python interpreter, or python with -S, -I or -E, or no Python at all)"
)
OTHER_PYTHON = "another Python interpreter was started: /usr/bin/python3, but torchspan is installed in /venv/bin/python; install it in both"
NOTHING = "nothing was compiled: neither torch.compile nor Torch-TensorRT ran"
DISABLED = "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS disables torchspan"


@pytest.mark.parametrize(
    ("environ", "started", "expected"),
    [
        ({"OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "requests, torchspan"}, PYTHON, DISABLED),
        ({"OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "*"}, PYTHON, DISABLED),
        ({}, "/usr/bin/python3", OTHER_PYTHON),
        ({}, "/bin/true", NONE_STARTED),
    ],
)
def test_without_any_report_the_way_it_was_started_is_the_reason(environ, started, expected):
    assert reason(environ=environ, started=started) == expected


def test_a_disabled_instrumentation_is_the_reason_unless_the_program_enabled_torchspan_itself():
    environ = {"OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "torchspan"}
    assert reason(report(), environ=environ) == DISABLED
    assert reason(report(libraries=LOADED, rows=55, resolved=51), environ=environ) == (f"{NOTHING}, and no engine ran")


def test_a_disabled_sdk_is_the_reason():
    reports = (report(), report(libraries=LOADED, rows=55, resolved=51, unsampled=13, sdk_disabled=True))
    assert reason(*reports) == "OTEL_SDK_DISABLED=true disables OpenTelemetry"


def test_a_file_that_could_not_be_written_is_the_reason():
    error = "/t/x.jsonl cannot be written: Permission denied; 13 lost"
    assert reason(report(spans=13, file_errors=[error])) == f"the file was not written: {error}"


def test_instrumentations_that_could_not_be_loaded_are_the_reason():
    error = "OpenTelemetry failed to load the instrumentations: ValueError: no"
    assert reason(report(errors=["other", error])) == error


def test_a_library_that_no_process_imported_is_the_reason():
    assert reason(report(), report()) == (
        f"{NOTHING}; none of torch, torch_tensorrt, tensorrt and tensorrt_rtx was imported"
    )


def test_a_torch_program_that_compiled_nothing_is_not_asked_for_torch_tensorrt():
    plain = report(libraries={"torch": "2.14"})
    assert reason(report(), plain) == NOTHING
    assert reason(plain, environ={"TORCH_COMPILE_DISABLE": "1"}) == (
        f"{NOTHING}; TORCH_COMPILE_DISABLE=1 is set, so torch.compile compiles nothing"
    )


@pytest.mark.parametrize(
    ("stance", "why"),
    [
        ("default", "Dynamo converted no function; TORCH_LOGS=+dynamo shows its reasons"),
        ("force_eager", 'torch.compiler.set_stance("force_eager") is set'),
    ],
)
def test_a_program_for_which_torch_compile_compiled_nothing_is_not_said_to_lack_it(stance, why):
    asked = report(libraries={"torch": "2.14"}, stance=stance)
    assert reason(asked) == f"nothing was compiled: torch.compile was called, but {why}"


def test_hook_points_that_do_not_resolve_are_the_reason():
    assert reason(report(libraries=LOADED, rows=55)) == (
        "none of the 55 hook points resolved in this installation; see: torchspan probes"
    )


def test_ranks_that_are_left_out_are_the_reason_where_there_are_no_spans_of_others():
    left_out = report(libraries=LOADED, rows=55, resolved=51, left_out=4)
    assert reason(left_out, left_out) == ("TORCHSPAN_RANKS selects no rank that did anything (spans left out: 8)")
    assert reason(left_out, report(spans=3, has_unsampled=True)) == "3 spans were recorded, but none was sampled"


def test_a_part_that_is_paused_is_the_reason_and_not_the_sampler():
    paused = report(libraries=LOADED, rows=55, resolved=51, unsampled=4, paused={"writing spans": 4})
    assert reason(paused) == "writing spans kept failing and was paused; the program's log has the cause"


def test_spans_that_could_not_wait_for_the_sdk_are_the_reason_and_not_the_sampler():
    assert (
        reason(report(libraries=LOADED, rows=55, resolved=51, unsampled=1, unready=1))
        == "OpenTelemetry's SDK was not started in time"
    )


def test_a_sampler_that_drops_everything_is_the_reason():
    assert reason(report(libraries=LOADED, rows=55, resolved=51, unsampled=4)) == (
        "the sampler dropped all 4 (OTEL_TRACES_SAMPLER=parentbased_always_on)"
    )
    assert reason(report(unsampled=4), environ={"OTEL_TRACES_SAMPLER": "always_off"}) == (
        "the sampler dropped all 4 (OTEL_TRACES_SAMPLER=always_off)"
    )


def test_a_sampler_of_the_programs_own_provider_is_the_reason():
    environ = {"OTEL_TRACES_SAMPLER": "always_on"}
    assert reason(report(unsampled=4, provider="program"), environ=environ) == (
        "the sampler of the program's own tracer provider dropped all 4"
    )


def test_a_provider_that_takes_no_processor_is_the_reason_and_no_sampler_is():
    foreign = report(unsampled=4, provider="foreign")
    assert [reason(foreign)] == problems([foreign])


def test_an_unsampled_parent_is_the_reason_where_the_sampler_follows_it():
    unsampled = {"TRACEPARENT": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"}
    assert reason(report(unsampled=13), environ=unsampled) == (
        "TRACEPARENT marks its trace as not sampled (flags 00), and the sampler follows it"
    )
    assert reason(report(unsampled=13), environ={**unsampled, "OTEL_TRACES_SAMPLER": "always_off"}) == (
        "the sampler dropped all 13 (OTEL_TRACES_SAMPLER=always_off)"
    )


def test_spans_that_are_recorded_and_not_sampled_are_the_reason():
    reports = [report(spans=2), report(spans=3, has_unsampled=True)]
    assert reason(*reports) == "5 spans were recorded, but none was sampled"


def test_spans_of_which_nothing_is_known_are_never_said_to_be_unsampled():
    assert reason(report(spans=3, is_final=True)) == "3 spans were started, but none ended"
    assert reason(report(spans=3)) == "3 spans were started, but none is in the file"


@pytest.mark.parametrize(
    "error",
    [
        "the OpenTelemetry SDK cannot be imported: ImportError('no')",
        "the OTEL_* variables cannot be applied: ValueError('no')",
    ],
)
def test_a_tracer_that_cannot_be_made_is_the_reason_and_not_the_sampler(error):
    assert reason(report(unsampled=10, errors=["other", error])) == error


def test_spans_that_have_ended_and_are_not_in_the_file_are_missing():
    full = "/t/x.jsonl cannot be written: No space left on device; 4 lost"
    ended = report(pid=1, ended=10, file_errors=[full, "other; 1 lost"], is_final=True)
    killed = report(pid=2, ended=1, file_errors=["other; 1 lost"])
    assert missing([ended], {1: 3}) == (7, 10, True, "/t/x.jsonl cannot be written: No space left on device")
    assert missing([ended, killed], {1: 10, 2: 5}) == (
        0,
        15,
        False,
        "/t/x.jsonl cannot be written: No space left on device",
    )
    assert missing([report(pid=1, ended=10)], {1: 10, 7: 1}) == (0, 11, True, "")


def test_problems_are_said_once_with_what_was_not_delivered_in_all_processes():
    reports = [
        report(errors=["OTEL_TRACES_EXPORTER=nosuch: no"], undelivered={"otlp": 1}),
        report(errors=["OTEL_TRACES_EXPORTER=nosuch: no"], undelivered={"otlp": 2, "console": 1}),
        report(provider="foreign"),
    ]
    assert problems(reports) == [
        "OTEL_TRACES_EXPORTER=nosuch: no",
        "the exporter console did not deliver 1 span before the program ended; the file contains all spans",
        "the exporter otlp did not deliver 3 spans before the program ended; the file contains all spans",
        (
            "the program's own tracer provider accepts no span processor, so nothing is recorded while it is set; start the program "
            "without `torchspan run`, and call torchspan.instrument() in it: that provider receives the spans then"
        ),
    ]


def test_what_was_paused_is_said_with_how_often_it_was_left_out_in_all_processes():
    reports = [report(paused={"writing spans": 1}), report(paused={"writing spans": 2, "describing x:f": 1})]
    assert problems(reports) == [
        (
            "describing x:f kept failing and was paused: it was left out 1 time, and the file lacks what it would have "
            "recorded; the program's log has the cause"
        ),
        (
            "writing spans kept failing and was paused: it was left out 3 times, and the file lacks what it would have "
            "recorded; the program's log has the cause"
        ),
    ]


def test_pauses_are_added_up_over_bridges_and_begin_at_zero_in_a_fork():
    made = report()
    made.left_out_once("starting")
    made.count_pauses({"writing spans": 2})
    made.counted_elsewhere()
    made.count_pauses({"writing spans": 3})
    assert made.paused == {"starting": 1, "writing spans": 5}
    made._write_in_child()
    made.count_pauses({"writing spans": 4})
    assert made.paused == {"writing spans": 1}


def test_a_library_that_was_not_used_is_the_reason():
    assert reason(report(libraries=LOADED, rows=55, resolved=51)) == (f"{NOTHING}, and no engine ran")


def test_a_program_that_uses_tensorrt_alone_is_reported_so():
    libraries = {"torch": "2.14.1", "tensorrt_rtx": "1.6.1.120"}
    assert reason(report(libraries=libraries, rows=9, resolved=9)) == (
        "tensorrt_rtx was imported, but nothing was parsed, built or run with it"
    )
