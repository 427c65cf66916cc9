# SPDX-License-Identifier: Apache-2.0
"""Says to uv what the user has said to pip: prints `export UV_…` lines for a shell to evaluate.

uv does not read pip's configuration, so a mirror, a proxy or a certificate configured there would be passed over. What the
user has said to uv itself stands: variables that are set, and indexes in a configuration file of uv's. Standard library
only, because this runs before anything is installed.
"""

import ast
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

SECTIONS = ("global", "install", ":env:")
"""Of pip's configuration, those that hold for `pip install`; later ones win."""


def pip_configuration(listing: str) -> dict[str, str]:
    """The settings of a `pip config list`, by option: the value that `pip install` would use."""
    found: dict[tuple[str, str], str] = {}
    for line in listing.splitlines():
        name, _, value = line.partition("=")
        section, _, option = name.rpartition(".")
        try:
            found[section, option] = str(ast.literal_eval(value))
        except (ValueError, SyntaxError):
            continue
    names = {option for _, option in found}
    values = {name: next((found[s, name] for s in reversed(SECTIONS) if (s, name) in found), None) for name in names}
    return {name: value for name, value in values.items() if value is not None}


class Translation(NamedTuple):
    """One option of pip's and the variables of uv's that say the same; the first gets the value."""

    option: str
    variables: tuple[str, ...]
    convert: Callable[[str], str] = str.strip


def _words(separator: str) -> Callable[[str], str]:
    return lambda value: separator.join(value.split())


def _links(value: str) -> str:
    """The words by commas, without folders that are missing: pip passes over them, uv refuses to work."""
    return ",".join(word for word in value.split() if "://" in word or Path(word).expanduser().exists())


def _yes(value: str) -> str:
    return "1" if value.strip().lower() in {"1", "true", "yes", "on"} else ""


TRANSLATIONS = (
    Translation("index-url", ("UV_DEFAULT_INDEX", "UV_INDEX_URL")),
    Translation("extra-index-url", ("UV_INDEX", "UV_EXTRA_INDEX_URL"), _words(" ")),
    Translation("find-links", ("UV_FIND_LINKS",), _links),
    Translation("trusted-host", ("UV_INSECURE_HOST",), _words(" ")),
    Translation("constraint", ("UV_CONSTRAINT",), _words(" ")),
    Translation("proxy", ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")),
    Translation("proxy", ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")),
    Translation("cert", ("SSL_CERT_FILE",)),
    Translation("client-cert", ("SSL_CLIENT_CERT",)),
    Translation("default-timeout", ("UV_HTTP_TIMEOUT",)),
    Translation("timeout", ("UV_HTTP_TIMEOUT",)),
    Translation("retries", ("UV_HTTP_RETRIES",)),
    Translation("pre", ("UV_PRERELEASE",), lambda value: "allow" if _yes(value) else ""),
    Translation("no-cache-dir", ("UV_NO_CACHE",), _yes),
    Translation("keyring-provider", ("UV_KEYRING_PROVIDER",), lambda value: value if value == "subprocess" else ""),
)
INDEXES = {"index-url", "extra-index-url", "find-links"}


def uv_environment(pip: Mapping[str, str], environ: Mapping[str, str], *, uv_has_file: bool = False) -> dict[str, str]:
    """The variables to set for uv, alongside those in `environ`, which stand.

    uv_has_file: uv has a configuration file; where packages come from is then said there.
    """
    result: dict[str, str] = {}
    for option, variables, convert in TRANSLATIONS:
        if option not in pip or any(name in environ for name in variables) or (uv_has_file and option in INDEXES):
            continue
        value = convert(pip[option])
        if value:
            result[variables[0]] = value
    if "UV_INDEX" in result and "UV_INDEX_STRATEGY" not in environ:
        result["UV_INDEX_STRATEGY"] = "unsafe-best-match"  # what pip does: the best version of all the indexes
    return result


def uv_options(pip: Mapping[str, str]) -> list[str]:
    """Options for `uv pip install` that no variable can say."""
    return ["--no-index"] if _yes(pip.get("no-index", "")) else []


def shell_lines(variables: Mapping[str, str], options: Sequence[str]) -> list[str]:
    """Lines for bash: exports, and an array `uv_options`."""
    exports = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    return [*exports, f"uv_options=({' '.join(map(shlex.quote, options))})"]


def _has_uv_file(environ: Mapping[str, str]) -> bool:
    user = Path(environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / "uv/uv.toml"
    return "UV_CONFIG_FILE" in environ or any(path.is_file() for path in (user, Path("/etc/uv/uv.toml")))


def main() -> None:
    """`pip_config_for_uv.py [python]`: the Python whose pip is asked; default: this one."""
    python = sys.argv[1] if len(sys.argv) > 1 else sys.executable
    answer = subprocess.run([python, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False)
    pip = pip_configuration(answer.stdout)
    print(
        "\n".join(shell_lines(uv_environment(pip, os.environ, uv_has_file=_has_uv_file(os.environ)), uv_options(pip)))
    )


if __name__ == "__main__":
    main()
