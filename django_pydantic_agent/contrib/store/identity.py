"""Digests that stand for texts of any length and case in an index."""

import hashlib


def digest(*parts: str) -> str:
    """Return the SHA-256 of the parts in hexadecimal; each goes in with its length, so none reaches into the next."""
    sha = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        sha.update(b"%d:" % len(data))
        sha.update(data)
    return sha.hexdigest()
