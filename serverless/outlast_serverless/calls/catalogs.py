"""Catalogs: where the functions that they hold are, as texts for machines.

A function of a catalog is ``functions/<name>/<version>/function.yaml`` under its root. Pages of repositories are for
people: their raw texts are elsewhere.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, urlsplit, urlunsplit

FILE: Final = "function.yaml"
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_TEXTS: Final = (".yaml", ".yml", ".json")
_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
_RAW: Final = "https://raw.githubusercontent.com"


def path_of(name: str, version: str) -> str:
    """Return where a function is in its catalog.

    Args:
        name: Its name.
        version: Its version.

    Raises:
        ValueError: It is no name of a function.
    """
    if not _NAME.fullmatch(name) or ".." in name:
        raise ValueError(f"{name!r:.60} is no name of a function: it has letters, digits, -, _ and .")
    return f"functions/{name}/{quote(version, safe='')}/{FILE}"


def urls_in(root: str, path: str) -> tuple[str, ...]:
    """Return where a file of a catalog may be; each is tried if those before are not there.

    Args:
        root: The URL of the catalog.
        path: Where the file is in it.
    """
    parts = urlsplit(root)
    folder = parts.path.rstrip("/")
    if parts.netloc == "github.com" and len(folder.split("/")) == 3:
        folder += "/tree/HEAD"
    elif _is_gitlab(parts.netloc) and "/-/" not in folder:
        folder += "/-/tree/HEAD"
    return raw_urls(urlunsplit(parts._replace(path=f"{folder}/{path}", fragment="")))


def raw_urls(url: str) -> tuple[str, ...]:
    """Return where the raw text of a page may be; a URL that is no such page is its own.

    Args:
        url: The URL of a file or folder on GitHub or GitLab, or any other.
    """
    parts = urlsplit(url)
    path, kind, rest = parts.path.partition("/-/")
    if kind and rest.startswith(("tree/", "blob/")):
        page, _, inside = rest.partition("/")
        return (urlunsplit(parts._replace(path=f"{path}/-/raw/{_file(page, inside)}", fragment="")),)
    segments = parts.path.strip("/").split("/")
    if parts.netloc != "github.com" or len(segments) < 3:
        return (url,)
    owner, repository, page, *inside_ = segments
    base = f"{_RAW}/{owner}/{repository.removesuffix('.git')}"
    if page in ("tree", "blob", "raw") and inside_:
        ref, *file = _file(page, "/".join(inside_)).split("/")
        return tuple(f"{base}/{one}/{'/'.join(file)}" for one in _refs(ref))
    folder, at, tag = "/".join([page, *inside_]).rpartition("@")
    if not at:
        return (url,)
    return tuple(f"{base}/{one}/{folder}/{FILE}" for one in reversed(_refs(tag)))


def _file(page: str, path: str) -> str:
    """Return the path of a file; the page of a folder means the function in it."""
    path = path.rstrip("/")
    return path if page != "tree" or path.endswith(_TEXTS) else f"{path}/{FILE}"


def _refs(ref: str) -> tuple[str, ...]:
    """Return what a name of a branch or tag, or a commit, may be."""
    if ref in ("HEAD", "refs") or _COMMIT.fullmatch(ref):
        return (ref,)
    return f"refs/heads/{ref}", f"refs/tags/{ref}"


def _is_gitlab(host: str) -> bool:
    return host.startswith("gitlab.")
