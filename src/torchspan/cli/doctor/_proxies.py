# SPDX-License-Identifier: Apache-2.0
"""The proxy through which an exporter connects, as its library chooses it from the environment."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping


def of_http(scheme: str, host: str, port: int, environ: Mapping[str, str]) -> str | None:
    """The proxy's URL for a request of `requests`, which OTLP/HTTP exporters use; None without one.

    https://requests.readthedocs.io/en/latest/user/advanced/#proxies
    """
    if _is_excluded(host, port, _value("no_proxy", environ)):
        return None
    return _value(f"{scheme}_proxy", environ) or _value("all_proxy", environ) or None


def of_grpc(host: str, port: int, environ: Mapping[str, str]) -> str | None:
    """The proxy's URL for a channel of gRPC; None without one.

    https://github.com/grpc/grpc/blob/master/doc/environment_variables.md: lower-case names alone, in this order.
    """
    if _is_excluded(host, port, environ.get("no_grpc_proxy") or environ.get("no_proxy") or ""):
        return None
    return next((environ[name] for name in ("grpc_proxy", "https_proxy", "http_proxy") if environ.get(name)), None)


def _value(name: str, environ: Mapping[str, str]) -> str:
    return environ.get(name) or environ.get(name.upper()) or ""


def _is_excluded(host: str, port: int, listed: str) -> bool:
    """Whether a list such as `localhost,.internal,10.0.0.0/8` names the host."""
    for entry in (each.strip().lower() for each in listed.split(",")):
        if not entry:
            continue
        if entry == "*" or entry in (host.lower(), f"{host.lower()}:{port}"):
            return True
        if host.lower().endswith(f".{entry.lstrip('.')}") or _is_in_network(host, entry):
            return True
    return False


def _is_in_network(host: str, network: str) -> bool:
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False
