"""TLS contexts from PEM in memory: keys never touch a disk. A context in use takes a renewed certificate over."""

from __future__ import annotations

import os
import ssl

from iris_operator.identity.certificates import Pair


def server_context(*, client_required: bool) -> ssl.SSLContext:
    """Of a server that has no certificate yet (`take`). Clients must show one, or may."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED if client_required else ssl.CERT_OPTIONAL
    context.num_tickets = 0  # a resumed session would not prove itself anew
    context.options |= ssl.OP_NO_TICKET
    return context


def client_context() -> ssl.SSLContext:
    """Of a client that has no certificate yet (`take`), and checks the server's name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context


def take(context: ssl.SSLContext, pair: Pair | None, trusted: bytes = b"") -> None:
    """For connections from now on: show this certificate, believe these too. ssl.SSLError when they are none."""
    if pair is not None:
        descriptor = os.memfd_create("iris-tls", os.MFD_CLOEXEC)  # the ssl module takes nothing but a file
        try:
            os.write(descriptor, pair.certificate + b"\n" + pair.key)
            context.load_cert_chain(f"/proc/self/fd/{descriptor}")
        finally:
            os.close(descriptor)
    if trusted:
        context.load_verify_locations(cadata=trusted.decode("ascii", "replace"))  # a PEM file may have comments


def common_name(peer: object) -> str:
    """Of a peer certificate as `getpeercert` gives it; empty without one."""
    subject = peer.get("subject", ()) if isinstance(peer, dict) else ()
    return next((str(value) for part in subject for name, value in part if name == "commonName"), "")
