# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from torchspan import environment_variables
from torchspan.exceptions import ConfigurationError
from torchspan.words import settings
from torchspan.words.settings import SETTINGS, VARIABLES, Settings, Source

ROOT = Path(__file__).resolve().parents[1]


def test_defaults():
    assert settings.load({}, {}) == Settings(
        detail="stages", build_phases="auto", capture="local", propagation="on", heartbeat=None, without_gpu=False
    )


def test_variables_are_read():
    environment = {
        "TORCHSPAN_DETAIL": "Passes ",
        "TORCHSPAN_BUILD_PHASES": "on",
        "TORCHSPAN_CAPTURE": "text",
        "TORCHSPAN_EVENTS": "LOG",
        "TORCHSPAN_HEARTBEAT": " 0.5",
        "TORCHSPAN_PROPAGATION": "links",
        "TORCHSPAN_WITHOUT_GPU": "1",
        "TORCHSPAN_READY_AFTER": "app.Serving:Server.warm_up",
        "TORCHSPAN_SAMPLE_OTHER": "0.25",
        "TORCHSPAN_SAMPLE_EXECUTE": " 1e-3 ",
        "TORCHSPAN_SAMPLE_EXECUTE_PER_SECOND": "20",
        "TORCHSPAN_SAMPLE_EXECUTE_TARGET": "0.5",
        "TORCHSPAN_RANKS": " 0, 4-6 ",
        "TORCHSPAN_GRAPH_RUNS": "1",
        "TORCHSPAN_INPUTS": "Compiled, app.models:Model, compiled",
        "TORCHSPAN_INPUTS_EVERY": " 1000 ",
    }
    assert settings.load({}, environment) == Settings(
        detail="passes",
        build_phases="on",
        capture="text",
        events="log",
        propagation="links",
        heartbeat=0.5,
        without_gpu=True,
        ready_after="app.Serving:Server.warm_up",
        sample_other=0.25,
        sample_execute=0.001,
        sample_execute_per_second=20,
        sample_execute_target=0.5,
        ranks="0,4-6",
        graph_runs=True,
        inputs="compiled,app.models:Model",
        inputs_every=1_000,
    )


def test_an_argument_wins_over_its_variable():
    environment = {"TORCHSPAN_DETAIL": "passes", "TORCHSPAN_WITHOUT_GPU": "1", "TORCHSPAN_HEARTBEAT": "7"}
    arguments = {"detail": "stages", "without_gpu": False, "heartbeat": 0}
    assert settings.load(arguments, environment) == Settings(heartbeat=0)


def test_where_each_value_comes_from_is_known():
    environment = {"TORCHSPAN_DETAIL": "passes", "TORCHSPAN_CAPTURE": "text", "TORCHSPAN_HEARTBEAT": "7"}
    file = {"capture": "none", "heartbeat": 8, "without_gpu": None}
    rows = {row.setting.name: row for row in settings.resolved({"heartbeat": 9}, file=file, environment=environment)}
    assert [
        (name, rows[name].value, rows[name].source) for name in ("heartbeat", "capture", "detail", "without_gpu")
    ] == [
        ("heartbeat", 9.0, Source.ARGUMENT),
        ("capture", "none", Source.FILE),
        ("detail", "passes", Source.VARIABLE),
        ("without_gpu", False, Source.DEFAULT),
    ]
    assert {row.refused for row in rows.values()} == {None}
    assert list(rows) == [setting.name for setting in SETTINGS]


def test_an_invalid_option_of_a_file_counts_as_none_and_the_message_says_what_is_used():
    environment = {"TORCHSPAN_DETAIL": "passes", "TORCHSPAN_HEARTBEAT": "soon"}
    found = settings.resolved({}, file={"detail": "all", "heartbeat": "later"}, environment=environment)
    assert [(row.value, row.source, row.refused) for row in found if row.refused] == [
        (
            "passes",
            Source.VARIABLE,
            "Invalid detail='all' in the configuration file, using variable 'passes' (expected one of stages, passes)",
        ),
        (
            None,
            Source.DEFAULT,
            (
                "Invalid TORCHSPAN_HEARTBEAT='soon' and heartbeat='later' in the configuration file, using the default "
                "(gaps of 5 to 60 s) (expected 0 for none, or 0.1 to 86400 seconds)"
            ),
        ),
    ]


@pytest.mark.parametrize(
    ("option", "value", "meaning"),
    [
        ("propagation", False, "off"),
        ("build_phases", True, "on"),
        ("detail", "Passes", "passes"),
        ("without_gpu", "true", True),
        ("heartbeat", "30", 30.0),
    ],
)
def test_an_option_of_a_file_is_what_yaml_reads_or_the_text_of_its_variable(option, value, meaning):
    assert getattr(settings.load({}, {}, {option: value}), option) == meaning


def test_a_variable_that_is_not_an_argument_has_a_source_too():
    environment = {"TORCHSPAN_FILE_MODE": "640", "TORCHSPAN_RUN_EXIT_TIMEOUT": "soon"}
    found = settings.resolved_variables(environment)
    rows = {row.setting.variable: (row.value, row.source, row.refused) for row in found}
    assert rows == {
        "TORCHSPAN_FILE": ("torchspan-%t-%p.jsonl", Source.DEFAULT, None),
        "TORCHSPAN_FILE_MAX_SIZE": (268_435_456, Source.DEFAULT, None),
        "TORCHSPAN_FILE_MODE": (0o640, Source.VARIABLE, None),
        "TORCHSPAN_RUN_EXIT_TIMEOUT": (
            2.0,
            Source.DEFAULT,
            "Invalid TORCHSPAN_RUN_EXIT_TIMEOUT='soon', using default 2 (expected 0 to 86400 seconds)",
        ),
        "TORCHSPAN_NATIVE_BUILD": ("off", Source.DEFAULT, None),
        "TORCHSPAN_RUN": (None, Source.DEFAULT, None),
    }


def test_an_invalid_value_is_one_warning_however_often_the_settings_are_read(caplog):
    environment = {"TORCHSPAN_DETAIL": "everything", "TORCHSPAN_FILE_MODE": "rw"}
    for _ in range(3):
        settings.load({}, environment)
        settings.load({"detail": "passes"}, environment)
        settings.value_of("TORCHSPAN_FILE_MODE", environment)
    assert caplog.messages == [
        "Invalid TORCHSPAN_DETAIL='everything', using default 'stages' (expected one of stages, passes)",
        (
            "Invalid TORCHSPAN_FILE_MODE='rw', using default 600 "
            "(expected a file's permissions in octal digits, such as 640)"
        ),
    ]


MISSPELLED = {
    "TORCHSPAN_DETIAL": "TORCHSPAN_DETAIL",
    "TORCHSPAN_FILES": "TORCHSPAN_FILE",
    "TORCHSPAN_SAMPLE_EXECUTE_PERSECOND": "TORCHSPAN_SAMPLE_EXECUTE_PER_SECOND",
}
OTHERS = (
    "TORCHSPAN_SERVICE_HOST",
    "TORCHSPAN_PORT",
    "TORCHSPAN_PORT_80_TCP_ADDR",
    "TORCHSPAN_",
    "TORCHSPAN_" + "X" * 9_999,
)


def test_a_misspelled_variable_is_one_warning_with_the_name_that_was_meant(caplog):
    environment = dict.fromkeys((*MISSPELLED, *OTHERS, "torchspan_detail", "OTEL_DETAIL"), "1")
    for _ in range(2):
        assert settings.load({}, environment) == Settings()
    assert caplog.messages == [
        "Unknown variable TORCHSPAN_DETIAL, ignored (did you mean TORCHSPAN_DETAIL?)",
        "Unknown variable TORCHSPAN_FILES, ignored (did you mean TORCHSPAN_FILE?)",
        (
            "Unknown variable TORCHSPAN_SAMPLE_EXECUTE_PERSECOND, ignored "
            "(did you mean TORCHSPAN_SAMPLE_EXECUTE_PER_SECOND?)"
        ),
    ]
    assert settings.unknown_variables(environment) == MISSPELLED | dict.fromkeys(OTHERS)


def test_a_long_invalid_value_is_shown_by_its_beginning(caplog):
    settings.load({}, {"TORCHSPAN_DETAIL": "x" * 10_000})
    assert caplog.messages == [
        f"Invalid TORCHSPAN_DETAIL='{'x' * 499}…, using default 'stages' (expected one of stages, passes)"
    ]


def test_a_variable_that_means_nothing_is_named_and_ignored(caplog):
    assert settings.load({}, {"TORCHSPAN_DETAIL": "everything", "TORCHSPAN_WITHOUT_GPU": "maybe"}) == Settings()
    assert caplog.messages == [
        "Invalid TORCHSPAN_DETAIL='everything', using default 'stages' (expected one of stages, passes)",
        "Invalid TORCHSPAN_WITHOUT_GPU='maybe', using default False (expected one of 0, 1, false, true)",
    ]


def test_an_empty_variable_is_as_good_as_none(caplog):
    empty = {"TORCHSPAN_DETAIL": "", "TORCHSPAN_WITHOUT_GPU": "", "TORCHSPAN_HEARTBEAT": " "}
    assert settings.load({}, empty) == Settings()
    assert caplog.messages == []


INVALID = {
    "detail": ("everything", "invalid value for detail: 'everything' (expected one of stages, passes)"),
    "build_phases": (True, "invalid value for build_phases: True (expected one of auto, on, off)"),
    "capture": ("Text", "invalid value for capture: 'Text' (expected one of local, none, text)"),
    "propagation": (["on"], "invalid value for propagation: ['on'] (expected one of on, links, off)"),
    "without_gpu": ("yes", "invalid value for without_gpu: 'yes' (expected one of 0, 1, false, true)"),
    "graph_runs": (2, "invalid value for graph_runs: 2 (expected one of 0, 1, false, true)"),
    "ready_after": (
        "__main__:warm_up",
        "invalid value for ready_after: '__main__:warm_up' (expected module:function, of a module that the program imports)",
    ),
    "sample_other": (1.5, "invalid value for sample_other: 1.5 (expected a number from 0 to 1)"),
    "sample_execute": (True, "invalid value for sample_execute: True (expected a number from 0 to 1)"),
    "sample_execute_per_second": (
        0,
        "invalid value for sample_execute_per_second: 0 (expected a number above 0, at most 1000000)",
    ),
    "sample_execute_target": (
        "many",
        "invalid value for sample_execute_target: 'many' (expected a number above 0, at most 1000000)",
    ),
    "events": ("logs", "invalid value for events: 'logs' (expected one of span, log)"),
    "ranks": ("7-0", "invalid value for ranks: '7-0' (expected all, or ranks such as 0, 0-7 or 0,4-6)"),
    "inputs": (
        "app.models.Model",
        (
            "invalid value for inputs: 'app.models.Model' (expected off, or compiled and module:Class, separated by commas, of "
            "modules that the program imports)"
        ),
    ),
    "inputs_every": (0, "invalid value for inputs_every: 0 (expected a whole number from 1 to 1000000000)"),
    "tracer_provider": ("x", "invalid value for tracer_provider: 'x' (expected an object with the method get_tracer)"),
    "meter_provider": (3, "invalid value for meter_provider: 3 (expected an object with the method get_meter)"),
    "logger_provider": (3, "invalid value for logger_provider: 3 (expected an object with the method get_logger)"),
}


@pytest.mark.parametrize("name", INVALID)
def test_an_invalid_argument_is_an_error_with_its_name_its_value_and_what_is_expected(name):
    value, message = INVALID[name]
    with pytest.raises(ConfigurationError) as caught:
        settings.load({name: value}, {})
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("value", "expected"),
    [("all", "all"), ("0", "0"), (0, "0"), (" 3 - 7 ,1", "3-7,1"), ("2-2", "2"), ("007", "7")],
)
def test_ranks_are_numbers_and_ranges_in_one_spelling(value, expected):
    assert settings.load({"ranks": value}, {}) == Settings(ranks=expected)
    assert settings.load({"ranks": expected}, {}).ranks == expected


@pytest.mark.parametrize("value", [True, 1.0, -1, "", "ALL", "all,0", "none", [0], 10**9])
def test_what_names_no_ranks_is_an_error(value):
    with pytest.raises(ConfigurationError, match="expected all, or ranks such as 0, 0-7 or 0,4-6"):
        settings.load({"ranks": value}, {})


def test_a_variable_may_name_all_ranks_in_capitals():
    assert settings.load({}, {"TORCHSPAN_RANKS": "ALL"}).ranks == "all"


def test_a_provider_that_was_not_instantiated_is_an_error():
    class Provider:
        def get_tracer(self):
            raise AssertionError

    with pytest.raises(ConfigurationError, match="expected an object with the method get_tracer"):
        settings.load({"tracer_provider": Provider}, {})


@pytest.mark.parametrize(
    ("given", "on"), [(True, True), (1, True), ("1", True), (False, False), (0, False), ("0", False)]
)
def test_a_switch_is_a_bool_or_what_its_variable_may_be(given, on):
    assert settings.load({"without_gpu": given}, {"TORCHSPAN_WITHOUT_GPU": "1"}).without_gpu is on


@pytest.mark.parametrize(("given", "seconds"), [("0", 0), (0, 0), (0.1, 0.1), ("30", 30), (1e1, 10), (86_400, 86_400)])
def test_a_heartbeat_is_a_number_of_seconds(given, seconds):
    assert settings.load({"heartbeat": given}, {}).heartbeat == seconds
    assert settings.load({}, {"TORCHSPAN_HEARTBEAT": str(given)}).heartbeat == seconds


NO_SHARES = ["some", "-0.1", "1.01", "nan", "inf", "1%", "0,5"]


@pytest.mark.parametrize("value", NO_SHARES)
def test_a_share_that_means_nothing_is_named_and_ignored(value, caplog):
    assert settings.load({}, {"TORCHSPAN_SAMPLE_EXECUTE": value}) == Settings()
    assert caplog.messages == [
        f"Invalid TORCHSPAN_SAMPLE_EXECUTE={value!r}, using the default (`0`) (expected a number from 0 to 1)",
    ]


@pytest.mark.parametrize("share", [0, 1, 0.5, 1e-9])
def test_a_share_is_a_number_from_0_to_1(share):
    assert settings.load({}, {"TORCHSPAN_SAMPLE_OTHER": str(share)}).sample_other == share


NO_HEARTBEATS = ["often", "-1", "0.05", "86401", "nan", "inf", "5s", "1,5"]


@pytest.mark.parametrize("value", NO_HEARTBEATS)
def test_a_heartbeat_variable_that_means_nothing_is_named_and_ignored(value, caplog):
    assert settings.load({}, {"TORCHSPAN_HEARTBEAT": value}) == Settings()
    assert caplog.messages == [
        (
            f"Invalid TORCHSPAN_HEARTBEAT={value!r}, using the default (gaps of 5 to 60 s) "
            "(expected 0 for none, or 0.1 to 86400 seconds)"
        )
    ]


@pytest.mark.parametrize("value", [*NO_HEARTBEATS, "", -1, float("nan"), 10**400, True, False, [5]])
def test_a_heartbeat_argument_that_means_nothing_is_an_error(value):
    with pytest.raises(ConfigurationError) as caught:
        settings.load({"heartbeat": value}, {})
    assert str(caught.value) == (
        f"invalid value for heartbeat: {value!r} (expected 0 for none, or 0.1 to 86400 seconds)"
    )


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("detial", "detail"),
        ("details", "detail"),
        ("buildphases", "build_phases"),
        ("build_fases", "build_phases"),
        ("trace_provider", "tracer_provider"),
        ("with_gpu", None),
        ("propagators", None),
        ("loger_provider", "logger_provider"),
        ("request_hook", None),
        ("tracer", None),
        ("", None),
    ],
)
def test_a_near_miss_of_a_known_name_is_distinguished_from_a_name_of_its_own(name, meant):
    if meant is None:
        settings.refuse_misspelled({name: 1})
        return
    with pytest.raises(TypeError) as caught:
        settings.refuse_misspelled({name: 1})
    assert str(caught.value) == f"instrument() got an unexpected argument {name!r} (did you mean {meant!r}?)"


def test_the_settings_are_the_rows_and_each_default_is_a_value_that_the_setting_may_have():
    assert Settings() == {setting.name: setting.default for setting in SETTINGS}
    given = [setting for setting in SETTINGS if setting.default is not None]
    assert [setting.kind.parse(setting.default) for setting in given] == [setting.default for setting in given]


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("off", "off"),
        ("OFF", "off"),
        ("*", "*:20"),
        ("*:50", "*:50"),
        ("_run_on_acc_0:007", "_run_on_acc_0:7"),
        ("Net:10000", "Net:10000"),
    ],
)
def test_layers_is_off_or_an_engine_and_a_number_of_runs(text, meaning):
    assert settings.load({}, {"TORCHSPAN_LAYERS": text}).layers == meaning


@pytest.mark.parametrize("text", ["on it", "a:0", "a:10001", "a:", ":5", "a:b", "a:5:6", "**"])
def test_layers_of_another_form_are_refused(text):
    with pytest.raises(ConfigurationError, match=r"invalid value for layers: .*expected off, or the name of an engine"):
        settings.load({"layers": text}, {})


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("off", "off"),
        ("OFF", "off"),
        ("compiled", "compiled"),
        ("a.b:C.D", "a.b:C.D"),
        ("a:B, compiled,a:B", "a:B,compiled"),
    ],
)
def test_inputs_is_off_or_a_list_of_what_is_followed(text, meaning):
    assert settings.load({}, {"TORCHSPAN_INPUTS": text}).inputs == meaning


@pytest.mark.parametrize("text", ["on", "a:B,off", "a:B,,compiled", "__main__:Model", "a:B C", "a:"])
def test_inputs_that_name_nothing_are_refused(text):
    with pytest.raises(ConfigurationError, match="invalid value for inputs"):
        settings.load({"inputs": text}, {})


def test_settings_cannot_be_changed():
    with pytest.raises(AttributeError):
        Settings().detail = "passes"


def test_a_variable_is_named_after_its_setting():
    assert [setting.variable for setting in SETTINGS] == [f"TORCHSPAN_{setting.name.upper()}" for setting in SETTINGS]


def test_each_variable_is_a_constant_of_its_name_and_has_a_row():
    constants = {name: value for name, value in vars(environment_variables).items() if name.isupper()}
    assert constants == {name: name for name in constants}
    assert sorted(constants) == sorted(row.variable for row in (*SETTINGS, *VARIABLES))


def test_no_entry_point_claims_that_opentelemetry_instrument_has_options_for_the_variables():
    assert not any(name.startswith("OTEL_") for name in vars(environment_variables))
    assert "opentelemetry_environment_variables" not in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_options_of_a_configuration_file_are_the_settings_each_of_which_may_be_left_out():
    assert settings.options()(detail="passes") == settings.options()(
        detail="passes",
        build_phases=None,
        capture=None,
        propagation=None,
        heartbeat=None,
        without_gpu=None,
        ready_after=None,
        sample_other=None,
        sample_execute=None,
        sample_execute_per_second=None,
        sample_execute_target=None,
        ranks=None,
    )


@pytest.mark.parametrize("text", ["x", "1.5", "0", "-1"])
def test_a_number_of_bytes_that_is_none_is_refused_in_the_words_of_the_other_settings(text):
    row = settings.resolved_variable("TORCHSPAN_FILE_MAX_SIZE", {"TORCHSPAN_FILE_MAX_SIZE": text})
    assert row.value == 268_435_456
    assert row.refused == (
        f"Invalid TORCHSPAN_FILE_MAX_SIZE={text!r}, using default 268435456 (expected a positive number of bytes)"
    )


def test_layers_that_yaml_reads_as_a_bool_are_off_or_refused():
    assert settings.load({}, {}, {"layers": False}).layers == "off"
    (refused,) = [row.refused for row in settings.resolved({}, file={"layers": True}, environment={}) if row.refused]
    assert refused.startswith("Invalid layers=True in the configuration file, using default 'off' (expected off, or ")
