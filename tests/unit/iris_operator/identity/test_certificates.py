"""Keys, requests, certificates: what is signed says what was judged, and nothing else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from iris_operator.identity.authority import ANNOUNCE, advance, first_authority
from iris_operator.identity.certificates import (
    BadPem,
    Pair,
    Subject,
    fits,
    issue,
    issued_by,
    make_request,
    new_authority,
    new_key,
    read_request,
    serves,
    sign,
    validity,
)

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
DAY = timedelta(days=1)
SUBJECT = Subject("a.agent.iris.dev", ("a.agent.iris.dev",), ("10.0.0.7",))


@pytest.fixture(scope="module")
def authority() -> Pair:
    return new_authority("iris-ca", NOW, 10 * DAY)


def test_a_request_says_its_names_back() -> None:
    found = read_request(make_request(new_key(), SUBJECT))
    assert (found.subject, found.others) == (SUBJECT, ())


@pytest.mark.parametrize("pem", [b"", b"hello", make_request(new_key(), SUBJECT).replace(b"A", b"B", 9)])
def test_what_is_no_request_is_told(pem: bytes) -> None:
    with pytest.raises(BadPem):
        read_request(pem)


def test_only_keys_on_p256_are_taken() -> None:
    key = rsa.generate_private_key(65537, 2048)
    asked = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, hashes.SHA256())
    with pytest.raises(BadPem, match="P-256"):
        read_request(asked.public_bytes(serialization.Encoding.PEM))


def test_whatever_else_a_request_asks_for_is_named() -> None:
    key = serialization.load_pem_private_key(new_key(), None)
    name = x509.Name(
        [x509.NameAttribute(NameOID.COMMON_NAME, "a"), x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:masters")]
    )
    asked = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(name)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.RFC822Name("a@b.c")]), critical=False)
        .sign(key, hashes.SHA256())  # type: ignore[arg-type]
    )
    others = " ".join(read_request(asked.public_bytes(serialization.Encoding.PEM)).others)
    assert "system:masters" in others
    assert "2.5.29.19" in others
    assert "a@b.c" in others


def test_a_certificate_is_for_serving_by_those_names_and_no_authority(authority: Pair) -> None:
    pem = sign(authority, read_request(make_request(new_key(), SUBJECT)), NOW, DAY, server=True)
    found = x509.load_pem_x509_certificate(pem)
    usage = found.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert not found.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert serves(pem, SUBJECT.hosts)
    assert not serves(pem, ("b.agent.iris.dev",))
    assert issued_by(pem, authority.certificate)
    assert not issued_by(pem, new_authority("iris-ca", NOW, DAY).certificate)
    assert validity(pem).end == NOW + DAY


def test_no_certificate_outlives_its_authority(authority: Pair) -> None:
    pair = issue(authority, SUBJECT, NOW + 9 * DAY, 30 * DAY, server=True, client=True)
    assert validity(pair.certificate).end == NOW + 10 * DAY
    assert fits(pair)
    assert not fits(Pair(pair.certificate, new_key()))


def test_renewal_is_due_at_two_thirds(authority: Pair) -> None:
    pem = sign(authority, read_request(make_request(new_key(), SUBJECT)), NOW, DAY, server=True)
    assert timedelta(hours=15, minutes=50) < validity(pem).renew_at - NOW < timedelta(hours=16)


class TestAuthority:
    def test_nothing_changes_before_two_thirds_of_its_life(self) -> None:
        first = first_authority(NOW, 90 * DAY)
        assert advance(first, NOW + 59 * DAY, 90 * DAY) is first

    def test_the_next_is_trusted_first_and_signs_later_and_the_old_goes_at_its_end(self) -> None:
        first = first_authority(NOW, 90 * DAY)
        begun = NOW + 60 * DAY
        announced = advance(first, begun, 90 * DAY)
        assert announced.current == first.current
        assert announced.coming is not None
        assert announced.trusted == (first.current.certificate, announced.coming.certificate)
        assert advance(announced, begun + ANNOUNCE - timedelta(hours=1), 90 * DAY) is announced
        switched = advance(announced, begun + ANNOUNCE, 90 * DAY)
        assert (switched.current, switched.coming) == (announced.coming, None)
        assert switched.trusted == announced.trusted
        last = advance(switched, NOW + 91 * DAY, 90 * DAY)
        assert last.trusted == (announced.coming.certificate,)
