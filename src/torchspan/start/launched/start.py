# SPDX-License-Identifier: Apache-2.0
"""What happens when a Python process starts below `torchspan run`."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any

from torchspan.base.logs import Log
from torchspan.words.environment_variables import TORCHSPAN_RUN

if TYPE_CHECKING:
    from collections.abc import Collection

    from torchspan.base.files.folders import Folder
    from torchspan.start.launched.process import RunProcess
    from torchspan.start.launched.run_settings import RunSettings

logger = Log("torchspan", names_itself=True)

CONFIGURATION_FILE = "OTEL_CONFIG_FILE"


class _Current:
    """One for the process."""

    process: RunProcess | None = None
    is_known = False


def current() -> RunProcess | None:
    """What torchspan does in this process; None outside of `torchspan run`. Begun by the first call below `run`.

    `start` makes that call, unless another `sitecustomize` comes first: that of `opentelemetry-instrument` does.
    """
    if not _Current.is_known:
        _Current.is_known = True
        if TORCHSPAN_RUN not in os.environ:
            return None
        from torchspan.start.launched.run_settings import RunSettings

        settings = RunSettings.from_environment()
        if settings is None:
            if os.environ[TORCHSPAN_RUN].strip():
                logger.warning("Invalid %s, ignored (only torchspan run sets it: unset it)", TORCHSPAN_RUN)
        else:
            from torchspan.start.launched.faults import catch_crashes
            from torchspan.start.launched.process import RunProcess

            reports = _reports(settings.reports)
            if reports is not None:
                catch_crashes(reports)
            _Current.process = RunProcess(settings, reports)
            _Current.process.begin()
            if settings.inputs and reports is not None:
                _observe_inputs(settings, reports, _Current.process)
    return _Current.process


def _observe_inputs(settings: RunSettings, reports: Folder, process: RunProcess) -> None:
    from torchspan.start.launched import observing as observed_inputs

    try:
        observed_inputs.begin(settings, reports)
    except Exception as error:
        process.fail(f"the inputs are not observed: {_first_line(error)}")


def _reports(path: str) -> Folder | None:
    """The folder for reports. None if it does not exist, because `run` has ended, or if it is not this user's."""
    from torchspan.base.files.folders import Folder

    try:
        return Folder(path)
    except OSError:
        return None


def start(site: str, programs: Collection[str]) -> None:
    """Begin, and load the instrumentations that are installed, torchspan's among them. For `sitecustomize`.

    Args:
        site: The folder that `run` has put on PYTHONPATH. OpenTelemetry's own start decides which instrumentations are
            loaded, and with which arguments. Its configurator sets global providers, and is called only if the program
            asks for it with OTEL_CONFIG_FILE.
        programs: The names of the modules that Python had imported before.
    """
    from torchspan.start.launched.early_modules import EarlyModules

    try:
        _begin(site)
    finally:
        EarlyModules(programs)


def _begin(site: str) -> None:
    process = current()
    if process is None:
        return
    python_path = os.environ.get("PYTHONPATH", "")
    # A Python that an instrumentation starts while it is loaded would load it again.
    others = [entry for entry in python_path.split(os.pathsep) if entry != site]
    os.environ["PYTHONPATH"] = os.pathsep.join(others)
    if not others:
        del os.environ["PYTHONPATH"]
    try:
        if os.environ.get(CONFIGURATION_FILE):
            _configure(process)
        _load_instrumentations(process)
    finally:
        os.environ["PYTHONPATH"] = python_path


def _configure(process: RunProcess) -> None:
    from torchspan.words import config_file

    missing = config_file.missing_package()
    if missing is not None:
        process.fail(f"{missing}; install it with: pip install 'torchspan[auto]'")
        return
    from opentelemetry.instrumentation.auto_instrumentation import _load

    from torchspan.base.thread_starts import making_threads
    from torchspan.hooks.propagation.private_api import give_exporters_own_random

    # OpenTelemetry logs what it raises, with values of the file, which may be credentials.
    factory = logging.getLogRecordFactory()
    logging.setLogRecordFactory(lambda *args, **kwargs: _without_values(factory(*args, **kwargs)))
    try:
        making_threads(_load._load_configurators)
        give_exporters_own_random()
    except Exception as error:
        reason = config_file.reason(error)
        process.fail(
            f"{CONFIGURATION_FILE} is set, and OpenTelemetry's configurator failed: {reason}; to check the file: torchspan doctor"
        )
    finally:
        logging.setLogRecordFactory(factory)


def _without_values(record: logging.LogRecord) -> logging.LogRecord:
    """The record, if it is one of OpenTelemetry's, without a traceback and without the texts that are filled in."""
    if record.name.startswith("opentelemetry"):
        harmless = (CONFIGURATION_FILE, os.environ.get(CONFIGURATION_FILE))
        filled_in = record.args if isinstance(record.args, tuple) else ()
        record.args = tuple(
            argument if isinstance(argument, int) or argument in harmless else "?" for argument in filled_in
        )
        record.exc_info = record.exc_text = None
    return record


def _load_instrumentations(process: RunProcess) -> None:
    from torchspan.start.launched.run_report import NOT_LOADED

    try:
        from opentelemetry.instrumentation.auto_instrumentation import _load

        _load._load_instrumentors(_distro())  # type: ignore[no-untyped-call]
    except Exception as error:
        process.fail(f"{NOT_LOADED}: {_first_line(error)}")


def _distro() -> Any:
    """The distro that OpenTelemetry's start would choose.

    OpenTelemetry's own distro is replaced: it only adds defaults of `OTEL_*`, which are not wanted, and imports the whole SDK.
    """
    from importlib.metadata import entry_points

    from opentelemetry.instrumentation.auto_instrumentation import _load
    from opentelemetry.instrumentation.distro import DefaultDistro  # type: ignore[attr-defined]

    name = os.environ.get("OTEL_PYTHON_DISTRO")
    candidates = [point for point in entry_points(group="opentelemetry_distro") if name in (None, point.name)]
    if candidates and candidates[0].value == "opentelemetry.distro:OpenTelemetryDistro":
        return DefaultDistro()
    return _load._load_distro()


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]
