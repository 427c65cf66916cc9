# SPDX-License-Identifier: Apache-2.0
"""The environment variables of torchspan, one documented constant each.

An argument given in code wins over an option of a configuration file (`OTEL_CONFIG_FILE`), the option over a variable, a variable
over the default. Variables of OpenTelemetry itself (`OTEL_TRACES_EXPORTER`, `OTEL_SERVICE_NAME`,
`OTEL_PYTHON_DISABLED_INSTRUMENTATIONS=torchspan`, …) apply as usual. An invalid value and a misspelled name are one warning each
in a process. `opentelemetry-instrument` makes no options of these names: it does so only for names that begin with `OTEL_`.
"""

from torchspan.words.environment_variables import *  # noqa: F403 - see `__all__`
from torchspan.words.environment_variables import __all__  # type: ignore[attr-defined]  # noqa: F401 - as in `torchspan.phase`
