"""Keys, requests and certificates, all PEM: EC P-256, signed with SHA-256. Pure but for the randomness of keys."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# Clocks differ: a certificate is valid from a little before it was made.
SKEW = timedelta(minutes=5)

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class BadPem(Exception):
    """What should be a key, a request or a certificate is none; the message says what is wrong."""


@dataclass(frozen=True)
class Pair:
    """A certificate and its private key, PEM."""

    certificate: bytes
    key: bytes


@dataclass(frozen=True)
class Subject:
    """Who a certificate is about: its common name, and the DNS names and addresses it may serve as."""

    common_name: str
    hosts: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()


@dataclass(frozen=True)
class Validity:
    """From when to when a certificate is good."""

    begin: datetime
    end: datetime

    @property
    def renew_at(self) -> datetime:
        """At two thirds of its life."""
        return self.begin + (self.end - self.begin) * 2 / 3


@dataclass(frozen=True)
class Request:
    """A certificate request that proves its key. `others`: what it asks for besides a name, in words."""

    subject: Subject
    public_key: ec.EllipticCurvePublicKey
    others: tuple[str, ...] = ()


def new_key() -> bytes:
    """A private key."""
    key = ec.generate_private_key(ec.SECP256R1())
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def new_authority(common_name: str, now: datetime, life: timedelta) -> Pair:
    """A self-signed authority that may sign end certificates only."""
    key = new_key()
    private = _private(key)
    name = _name(common_name)
    usage = x509.KeyUsage(
        digital_signature=True, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    made = (
        _builder(name, name, private.public_key(), now, now + life)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(private.public_key()), critical=False)
        .sign(private, hashes.SHA256())
    )
    return Pair(_pem(made), key)


def make_request(key: bytes, subject: Subject) -> bytes:
    """A certificate request for it, signed by the key."""
    builder = x509.CertificateSigningRequestBuilder().subject_name(_name(subject.common_name))
    names = _alternative_names(subject)
    if names is not None:
        builder = builder.add_extension(names, critical=False)
    return builder.sign(_private(key), hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def read_request(pem: bytes) -> Request:
    """What a request asks for. BadPem when it is none, its signature is not its key's, or its key is not P-256."""
    try:
        found = x509.load_pem_x509_csr(pem)
        signed = found.is_signature_valid
        extensions = list(found.extensions)
    except (ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType, InvalidSignature) as error:
        raise BadPem(f"it is no certificate request: {error}") from error
    if not signed:
        raise BadPem("its signature is not that of its key")
    key = found.public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise BadPem("its key is not an EC key on P-256")
    names = [one for one in extensions if isinstance(one.value, x509.SubjectAlternativeName)]
    others = [f"extension {one.oid.dotted_string}" for one in extensions if one not in names]
    hosts, addresses = [], []
    for name in (each for one in names for each in one.value):
        if isinstance(name, x509.DNSName):
            hosts.append(name.value)
        elif isinstance(name, x509.IPAddress):
            addresses.append(str(name.value))
        else:
            others.append(f"the name {name!r}")
    parts = [(part.oid, str(part.value)) for part in found.subject]
    others += [f"{oid.dotted_string}={value}" for oid, value in parts if oid != NameOID.COMMON_NAME]
    common = [value for oid, value in parts if oid == NameOID.COMMON_NAME]
    others += [f"a second common name {value}" for value in common[1:]]
    subject = Subject(common[0] if common else "", tuple(hosts), tuple(addresses))
    return Request(subject, key, tuple(others))


def sign(
    authority: Pair, request: Request, now: datetime, life: timedelta, *, server: bool = False, client: bool = False
) -> bytes:
    """A certificate for the request's key and subject, and for nothing else. It ends with its authority at the latest."""
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    end = min(now + life, issuer.not_valid_after_utc)
    wanted = ((server, ExtendedKeyUsageOID.SERVER_AUTH), (client, ExtendedKeyUsageOID.CLIENT_AUTH))
    usage = x509.KeyUsage(
        digital_signature=True, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=False, crl_sign=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    builder = (
        _builder(_name(request.subject.common_name), issuer.subject, request.public_key, now, end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.ExtendedKeyUsage([oid for yes, oid in wanted if yes]), critical=False)
        .add_extension(_authority_identifier(issuer), critical=False)
    )
    names = _alternative_names(request.subject)
    if names is not None:
        builder = builder.add_extension(names, critical=False)
    return _pem(builder.sign(_private(authority.key), hashes.SHA256()))


def issue(authority: Pair, subject: Subject, now: datetime, life: timedelta, *, server: bool, client: bool) -> Pair:
    """A new key and its certificate."""
    key = new_key()
    request = Request(subject, _private(key).public_key())
    return Pair(sign(authority, request, now, life, server=server, client=client), key)


def validity(certificate: bytes) -> Validity:
    """Of the first certificate in the PEM. BadPem when there is none."""
    found = _first(certificate)
    return Validity(found.not_valid_before_utc, found.not_valid_after_utc)


def fits(pair: Pair) -> bool:
    """Whether the key is the certificate's. BadPem when either is none."""
    return _private(pair.key).public_key() == _first(pair.certificate).public_key()


def issued_by(certificate: bytes, authority: bytes) -> bool:
    """Whether that authority signed it. BadPem when either is none."""
    try:
        _first(certificate).verify_directly_issued_by(_first(authority))
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def serves(certificate: bytes, hosts: Sequence[str]) -> bool:
    """Whether it is good for exactly these DNS names. BadPem when it is none."""
    try:
        names = _first(certificate).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return not hosts
    return sorted(names.get_values_for_type(x509.DNSName)) == sorted(hosts)


def split(bundle: bytes) -> list[bytes]:
    """The certificates of a bundle, one PEM each. BadPem when one is none."""
    try:
        return [_pem(one) for one in x509.load_pem_x509_certificates(bundle)] if bundle.strip() else []
    except ValueError as error:
        raise BadPem(f"it is no bundle of certificates: {error}") from error


def _first(pem: bytes) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError as error:
        raise BadPem(f"it is no certificate: {error}") from error


def _private(pem: bytes) -> ec.EllipticCurvePrivateKey:
    try:
        found = serialization.load_pem_private_key(pem, None)
    except (ValueError, TypeError) as error:
        raise BadPem(f"it is no private key: {error}") from error
    if not isinstance(found, ec.EllipticCurvePrivateKey):
        raise BadPem("it is not an EC key")
    return found


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(end)
    )


def _alternative_names(subject: Subject) -> x509.SubjectAlternativeName | None:
    names: list[x509.GeneralName] = [x509.DNSName(host) for host in subject.hosts]
    names += [x509.IPAddress(ipaddress.ip_address(address)) for address in subject.addresses]
    return x509.SubjectAlternativeName(names) if names else None


def _authority_identifier(issuer: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    found = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(found)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
