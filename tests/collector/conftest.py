# SPDX-License-Identifier: Apache-2.0
"""What the tests of the Collector's configurations share."""

import subprocess

import pytest


def openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


@pytest.fixture(scope="session")
def certificates(tmp_path_factory):
    """A folder with an authority (ca.pem), and what it signed: server.pem for 127.0.0.1, and client.pem; keys are *.key."""
    folder = tmp_path_factory.mktemp("certificates")
    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    openssl(
        "req", "-x509", *new_key, "-subj", "/CN=own authority", "-keyout", folder / "ca.key", "-out", folder / "ca.pem"
    )
    for name in ("server", "client"):
        asked, said = folder / f"{name}.csr", folder / f"{name}.ext"
        said.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n", encoding="utf-8")
        openssl("req", "-new", *new_key, "-subj", f"/CN={name}", "-keyout", folder / f"{name}.key", "-out", asked)
        signed = ("-CA", folder / "ca.pem", "-CAkey", folder / "ca.key", "-CAcreateserial", "-extfile", said)
        openssl("x509", "-req", "-in", asked, *signed, "-out", folder / f"{name}.pem")
    return folder
