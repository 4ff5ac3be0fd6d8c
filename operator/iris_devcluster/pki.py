"""Keys and certificates of a cluster, made with openssl as files below `<root>/pki`; what exists is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from iris_devcluster import command

_DAYS = "3650"


@dataclass(frozen=True)
class Pair:
    """A certificate and its private key, PEM."""

    certificate: Path
    key: Path


@dataclass(frozen=True)
class Pki:
    """The certificate store in `folder`."""

    folder: Path

    @property
    def ca(self) -> Pair:
        return self._pair("ca")

    @property
    def front_proxy_ca(self) -> Pair:
        """Signs what the API server shows to aggregated API servers."""
        return self._pair("front-proxy-ca")

    @property
    def service_account_key(self) -> Path:
        return self.folder / "service-account.key"

    def prepare(self) -> None:
        """The two authorities and the service-account key."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        for pair in (self.ca, self.front_proxy_ca):
            if not pair.certificate.exists():
                self._make_authority(pair)
        if not self.service_account_key.exists():
            # ecparam, not genpkey: the API server reads the public half of the older format only.
            partial = self.service_account_key.with_suffix(".part")
            command.run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(partial)])
            partial.replace(self.service_account_key)

    def client(self, name: str, user: str, groups: Sequence[str] = (), authority: Pair | None = None) -> Pair:
        """A client certificate: common name `user`, organisations `groups`."""
        subject = "".join(f"/O={group}" for group in groups) + f"/CN={user}"
        return self._issue(name, subject, "clientAuth", (), authority or self.ca)

    def server(self, name: str, names: Sequence[str], authority: Pair | None = None) -> Pair:
        """A serving certificate for `names`, each as `DNS:...` or `IP:...`."""
        return self._issue(name, f"/CN={name}", "serverAuth", names, authority or self.ca)

    def _pair(self, name: str) -> Pair:
        return Pair(self.folder / f"{name}.crt", self.folder / f"{name}.key")

    def _make_authority(self, pair: Pair) -> None:
        subject = f"/CN=iris-devcluster {pair.certificate.stem}"
        extensions = ["-addext", "keyUsage=critical,keyCertSign,digitalSignature"]  # req adds CA:TRUE itself
        self._request(pair, subject, extensions)

    def _issue(self, name: str, subject: str, usage: str, names: Sequence[str], authority: Pair) -> Pair:
        pair = self._pair(name)
        if pair.certificate.exists():
            return pair
        extensions = ["-addext", "basicConstraints=critical,CA:FALSE", "-addext", f"extendedKeyUsage={usage}"]
        if names:
            extensions += ["-addext", f"subjectAltName={','.join(names)}"]
        signer = ["-CA", str(authority.certificate), "-CAkey", str(authority.key)]
        self._request(pair, subject, [*signer, *extensions])
        return pair

    def _request(self, pair: Pair, subject: str, extra: Sequence[str]) -> None:
        """The certificate is moved into place last, so that what exists is whole."""
        partial = pair.certificate.with_suffix(".part")
        new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc", "-keyout", str(pair.key)]
        base = ["openssl", "req", "-x509", "-days", _DAYS, "-subj", subject, "-out", str(partial)]
        command.run([*base, *new_key, *extra])
        partial.replace(pair.certificate)
