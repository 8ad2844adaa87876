"""Digests. `hashlib` loads OpenSSL, which takes longer than to check the cache: Python's own code does as well."""

try:
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

DIGITS = 64
"""Hexadecimal ones, of a digest."""


def digest(*contents: bytes) -> str:
    """Give what tells contents from all others, their order included, as hexadecimal digits."""
    result = blake2b(digest_size=DIGITS // 2)
    for content in contents:
        result.update(b"%d:" % len(content))
        result.update(content)
    return result.hexdigest()
