# SPDX-License-Identifier: Apache-2.0
"""Whatever the variables hold, each check answers."""

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from torchspan.cli.doctor import _printed as report
from torchspan.words.settings import SETTINGS, VARIABLES

NAMES = [
    "OTEL_SDK_DISABLED",
    "OTEL_CONFIG_FILE",
    "OTEL_TRACES_EXPORTER",
    "OTEL_TRACES_SAMPLER",
    "OTEL_TRACES_SAMPLER_ARG",
    "OTEL_PYTHON_ID_GENERATOR",
    "OTEL_PYTHON_DISTRO",
    "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "HTTPS_PROXY",
    *(row.variable for row in (*SETTINGS, *VARIABLES)),
]
TEXTS = st.one_of(
    st.text(st.characters(exclude_characters="\0"), max_size=40),
    st.sampled_from(
        ["torchspan", "*", "true", "/", "a,b", "1e999", "nan", "-0", "\udc80", "x" * 5000, "@:", "//@", "${X}"]
    ),
)
ENVIRONMENTS = st.dictionaries(st.sampled_from(NAMES) | TEXTS.map(lambda text: f"TORCHSPAN_{text}"), TEXTS, max_size=6)


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    environment=ENVIRONMENTS, header=st.sampled_from(["OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_LOGS_HEADERS"])
)
def test_no_check_raises_and_no_credential_is_said(rows, environment, header):
    found = rows(**environment, **{header: "authorization=Bearer sEcr3t-sEcr3t"})

    assert [row.summary for name, row in found.items() if name.startswith("doctor.")] == []
    document = report.document(list(found.values()))
    assert json.loads(document)["version"] == 1
    assert "sEcr3t" not in document
    for line in report.lines(found.values(), 80, lists_all=True):
        assert "".join(piece for piece, _ in line).isprintable()
