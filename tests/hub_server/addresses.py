"""Signed addresses of the files of LFS, which expire."""

from __future__ import annotations

import hashlib
import hmac
import time
from calendar import timegm
from dataclasses import dataclass
from urllib.parse import parse_qs, quote

from .repositories import Blob, Repository

__all__ = ["Addresses"]

_KEY = b"of the tests"


@dataclass(slots=True)
class Addresses:
    """The way in which a hub signs addresses.

    Attributes:
        lifetime_s: Seconds for which one is valid; an hour on the hub.
        form: ``expires``, with ``Expires`` and ``Signature`` as of CloudFront, or ``amz``, with ``X-Amz-Date`` and
            ``X-Amz-Expires`` as of S3.
        moved_s: Seconds that are added to the clock, by which a test lets addresses expire at once.
    """

    lifetime_s: float = 3600.0
    form: str = "expires"
    moved_s: float = 0.0

    def sign(self, base: str, repository: Repository, blob: Blob, file_name: str) -> str:
        """Return an address of a blob for whom it is given to.

        Args:
            base: URL of the server that has the blob.
            repository: The repository, whose digest is in the path.
            blob: The blob.
            file_name: Under which browsers save it.
        """
        folder = hashlib.sha1(f"{repository.kind}/{repository.name}".encode()).hexdigest()[:24]
        path = f"/xet-bridge-us/{folder}/{blob.sha256}" if blob.xet_hash else f"/repos/{folder}/{blob.sha256}"
        shown = quote(f"inline; filename*=UTF-8''{quote(file_name)}; filename=\"{quote(file_name)}\";", safe="")
        now = time.time() + self.moved_s
        if self.form == "expires":
            expires = str(int(now + self.lifetime_s))
            query = (
                f"response-content-disposition={shown}&Expires={expires}&Policy=e30_&Signature={_sign(path, expires)}"
            )
            return f"{base}{path}?{query}&Key-Pair-Id=K2L8F4GPSG1IFC"
        date = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
        lifetime = str(round(self.lifetime_s))
        query = (
            f"X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Content-Sha256=UNSIGNED-PAYLOAD&X-Amz-Credential=cas%2F{date[:8]}"
            f"%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date={date}&X-Amz-Expires={lifetime}"
            f"&X-Amz-Signature={_sign(path, date, lifetime)}&X-Amz-SignedHeaders=host"
        )
        return f"{base}{path}?{query}&response-content-disposition={shown}&x-id=GetObject"

    def sign_upload(self, base: str, name: str) -> str:
        """Return an address to which the bytes of a file, or of a part of one, are put."""
        expires = str(int(time.time() + self.moved_s + self.lifetime_s))
        path = f"/uploads/{name}"
        return f"{base}{path}?Expires={expires}&Signature={_sign(path, expires)}"

    def fault(self, path: str, query: str) -> str:
        """Return what is wrong with an address that a client asks for: ``expired``, ``signature`` or nothing."""
        arguments = {name: values[0] for name, values in parse_qs(query).items()}
        now = time.time() + self.moved_s
        if "Expires" in arguments:
            expires = arguments["Expires"]
            if arguments.get("Signature") != _sign(path, expires):
                return "signature"
            return "expired" if now > float(expires) else ""
        date, lifetime = arguments.get("X-Amz-Date", ""), arguments.get("X-Amz-Expires", "")
        if arguments.get("X-Amz-Signature") != _sign(path, date, lifetime):
            return "signature"
        signed = timegm(time.strptime(date, "%Y%m%dT%H%M%SZ"))
        return "expired" if now > signed + float(lifetime) else ""


def _sign(*parts: str) -> str:
    return hmac.new(_KEY, "\n".join(parts).encode(), hashlib.sha256).hexdigest()
