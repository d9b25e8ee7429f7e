# SPDX-License-Identifier: Apache-2.0
"""Certificates for the link to the backbone: three files in, credentials of gRPC out.

Connects to nothing. Files are read once, at the start; a new certificate needs a new start.
"""

from dataclasses import dataclass
from pathlib import Path
import ssl

import grpc
from onboard_decoder.errors import SettingsError


@dataclass(frozen=True)
class TlsFiles:
    """PEM files; ``ca`` turns TLS on, and without it the link is plain text.

    Attributes:
      ca: certificates of the authorities that may sign the backbone's certificate.
      certificate: this robot's, for a backbone that wants one, with what leads to its authority.
      key: its private key, not encrypted.
    """

    ca: str = ''
    certificate: str = ''
    key: str = ''

    def credentials(self) -> grpc.ChannelCredentials | None:
        """Return what a channel needs, None for plain text.

        Raises:
          SettingsError: a file is missing, unreadable or of another kind, key and certificate do
            not belong together, or one of the settings lacks the other.
        """
        self._check_settings()
        if not self.ca:
            return None
        # gRPC would say of a broken file only that no connection came about.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            context.load_verify_locations(cafile=self.ca)
            authorities = Path(self.ca).read_bytes()
        except OSError as error:
            raise _unusable('tls_ca', self.ca, 'a readable PEM file of certificates', error
                            ) from error
        if not self.certificate:
            return grpc.ssl_channel_credentials(authorities)
        return grpc.ssl_channel_credentials(
            authorities,
            private_key=_read('tls_key', self.key),
            certificate_chain=self._checked_certificate(context),
        )

    def _check_settings(self) -> None:
        if bool(self.certificate) != bool(self.key):
            raise SettingsError(
                'tls_key' if self.certificate else 'tls_certificate', '',
                'a PEM file: tls_certificate and tls_key are set both, or neither')
        if self.certificate and not self.ca:
            raise SettingsError(
                'tls_ca', self.ca, 'a PEM file where tls_certificate is set: it turns TLS on')

    def _checked_certificate(self, context: ssl.SSLContext) -> bytes:
        """Return the robot's certificate, once it is known that the key is its own."""
        chain = _read('tls_certificate', self.certificate)
        try:
            # Without a password of its own, OpenSSL would ask for one at the terminal.
            context.load_cert_chain(self.certificate, self.key, password='')
        except ssl.SSLError as error:
            raise _unusable(
                'tls_certificate', self.certificate,
                f'a PEM file whose unencrypted key is in tls_key {self.key!r}', error) from error
        return chain


def _read(name: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise _unusable(name, path, 'a readable PEM file', error) from error


def _unusable(name: str, path: str, wanted: str, error: OSError) -> SettingsError:
    return SettingsError(name, path, f'{wanted} ({error.strerror or error})')
