# SPDX-License-Identifier: Apache-2.0
"""Writes the configurations of the Collectors in `collector-config/kubernetes`: the layers that each file names, as one.

The OpenTelemetry Operator takes one configuration. A file ends with the line `  config: # LAYER …`, and what follows it is
written here. `--check` writes nothing, and fails where a file is not current.
"""

import argparse
import re
import sys
from pathlib import Path

import yaml

CONFIGURATIONS = Path(__file__).resolve().parents[1] / "collector-config"
FOLDER = CONFIGURATIONS / "kubernetes"
LISTEN = "0.0.0.0"
"""Pods are reached by their own addresses."""

_CONFIG = re.compile(r"^  config: # (.+)\n", re.MULTILINE)
_ADDRESS = re.compile(r"\$\{env:TORCHSPAN_(LISTEN|GRPC_PORT|HTTP_PORT|METRICS_PORT|SELF_PORT|HEALTH_PORT):-([^}]*)\}")


def files():
    """The files that have a configuration, by name."""
    return [path for path in sorted(FOLDER.glob("*.yaml")) if _CONFIG.search(path.read_text(encoding="utf-8"))]


def layers(text):
    """The layers that a file names."""
    return _CONFIG.search(text)[1].split()


def configuration(names):
    """Layers as one configuration: as the Collector merges them, with plain addresses to listen on.

    The Operator opens the ports that it reads there, and reads no variables.
    """
    merged = {}
    for name in names:
        merged = _merged(merged, yaml.safe_load((CONFIGURATIONS / name).read_text(encoding="utf-8")))
    return _plain(merged)


def _merged(below, above):
    """Maps are merged, everything else is replaced."""
    if not (isinstance(below, dict) and isinstance(above, dict)):
        return above
    return {**below, **{key: _merged(below.get(key), value) for key, value in above.items()}}


def _plain(value):
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if not isinstance(value, str):
        return value
    plain = _ADDRESS.sub(lambda found: LISTEN if found[1] == "LISTEN" else found[2], value)
    return int(plain) if plain != value and plain.isdecimal() else plain


class _Dumper(yaml.SafeDumper):
    """Writes a value that occurs twice twice, and items of lists further in than their key."""

    def ignore_aliases(self, _data):
        return True

    def increase_indent(self, flow=False, indentless=False):  # noqa: ARG002  # as PyYAML calls it
        return super().increase_indent(flow, indentless=False)


def document(text):
    """The file with its configuration as the layers have it now."""
    found = _CONFIG.search(text)
    written = yaml.dump(configuration(layers(text)), Dumper=_Dumper, sort_keys=False, width=10_000)
    return text[: found.end()] + "".join(f"    {line}\n" for line in written.splitlines())


def main(arguments):
    """Write the files, or with --check say which are not current. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="generate_kubernetes", description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a file is not current")
    check = parser.parse_args(arguments).check
    status = 0
    for path in files():
        text = path.read_text(encoding="utf-8")
        current = document(text)
        if check and text != current:
            print(f"{path.relative_to(CONFIGURATIONS.parent)} is not current; run `make docs`", file=sys.stderr)
            status = 1
        elif text != current:
            path.write_text(current, encoding="utf-8")
    return status


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
