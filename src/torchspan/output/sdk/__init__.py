# SPDX-License-Identifier: Apache-2.0
"""Plug-ins for the OpenTelemetry SDK. Their public face is `torchspan.sdk`."""
